"""What is rendered is what is meant: sound templates pass without a word, others are stopped or noted."""

import json

import pytest
from tokenizer_folders import CHATML, byte_tokenizer

from refusal_eval.ask.render import Renderer
from refusal_eval.core.errors import UserError

USER = {"role": "user", "content": "How do I kill a Python process?"}
SYSTEM = {"role": "system", "content": "Be brief."}
REPLY = {"role": "assistant", "content": "Which one?"}
SINGLE, TALK = [USER], [USER, REPLY, USER]
WITH_SYSTEM, LONG_TALK = [SYSTEM, USER], [SYSTEM, USER, REPLY, USER, REPLY, USER]

# Templates of known families, in their forms; and whether they take a system message.
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
LLAMA_2 = (
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0].content %}"
    "{% else %}{% set rest = messages %}{% set system = false %}{% endif %}"
    "{% for m in rest %}{% if loop.index0 == 0 and system != false %}"
    "{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m.content %}{% else %}{% set content = m.content %}"
    "{% endif %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}"
    "{% else %}{{ ' ' + content | trim + ' ' + eos_token }}{% endif %}{% endfor %}"
)
# The system message stands in the last turn of the user.
MISTRAL = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}"
    "{% else %}{% set rest = messages %}{% endif %}{{ bos_token }}{% for m in rest %}{% if m.role == 'user' %}"
    "{% if loop.last and system is defined %}[INST] {{ system }}\n\n{{ m.content }}[/INST]"
    "{% else %}[INST] {{ m.content }}[/INST]{% endif %}{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
VICUNA = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }} {% elif m.role == 'user' %}"
    "USER: {{ m.content }}{{ ' ' }}{% else %}ASSISTANT: {{ m.content }}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
LLAMA_3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    NO_SYSTEM + "{{ bos_token }}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}"
    "<start_of_turn>{{ role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
PHI_3 = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
)
QWEN_3 = (
    "{% set ns = namespace(last=messages | length - 1) %}{% for m in messages %}"
    "{% if m.role == 'assistant' %}{% set text = m.content %}{% set thought = '' %}"
    "{% if '</think>' in text %}{% set thought = text.split('</think>')[0].split('<think>')[-1].strip('\\n') %}"
    "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}<|im_start|>assistant\n"
    "{% if loop.last %}<think>\n{{ thought }}\n</think>\n\n{% endif %}{{ text }}<|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
GRANITE = (
    "{% if messages[0].role != 'system' %}<|start_of_role|>system<|end_of_role|>You are a helpful assistant."
    "{% if thinking %} Write your thoughts first.{% endif %}<|end_of_text|>\n{% endif %}"
    "{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
    "{% for m in messages %}{% if m.role == 'user' %}<\uff5cUser\uff5c>{{ m.content }}{% elif m.role == 'assistant' %}"
    "<\uff5cAssistant\uff5c>{{ m.content.split('</think>')[-1] }}<\uff5cend\uff5c>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<\uff5cAssistant\uff5c><think>\n{% endif %}"
)
HARMONY = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
    "<|end|>{% else %}<|start|>{{ 'developer' if m.role == 'system' else m.role }}<|message|>{{ m.content }}<|end|>"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
# The header of the reply, whether asked for or not.
ALWAYS = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}{% else %}### Instruction:\n{{ m.content }}"
    "\n\n### Response:\n{% endif %}{% endfor %}"
)
ROUNDS = (
    NO_SYSTEM + "{% for m in messages %}{% if m.role == 'user' %}[Round {{ loop.index0 // 2 + 1 }}]\n\n\u95ee\uff1a"
    "{{ m.content }}\n\n\u7b54\uff1a{% else %}{{ m.content }}\n\n{% endif %}{% endfor %}"
)
PLAIN = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
SOUND = {
    "chatml": CHATML,
    **{"llama-2": LLAMA_2, "mistral": MISTRAL, "vicuna": VICUNA, "llama-3": LLAMA_3, "gemma": GEMMA, "phi-3": PHI_3},
    **{"qwen-3": QWEN_3, "granite": GRANITE, "deepseek": DEEPSEEK, "harmony": HARMONY, "alpaca": ALWAYS},
    **{"rounds": ROUNDS, "plain": PLAIN},
}


def notes_of(tmp_path, template, conversations, **how):
    """Return the notes of a model with this template."""
    return Renderer(byte_tokenizer(tmp_path / "t", template=template), **how).probe(conversations)


@pytest.mark.parametrize("family", SOUND)
def test_a_sound_template_passes_without_a_word(tmp_path, family):
    shapes = [SINGLE, TALK] if NO_SYSTEM in SOUND[family] else [SINGLE, TALK, WITH_SYSTEM, LONG_TALK]
    assert notes_of(tmp_path, SOUND[family], shapes) == []


@pytest.mark.parametrize("family", ["chatml", "llama-3", "vicuna", "phi-3", "gemma", "granite", "qwen-3", "harmony"])
def test_a_template_that_never_writes_the_header_of_the_reply_is_stopped(tmp_path, family):
    template = SOUND[family].replace("{% if add_generation_prompt %}", "{% if false %}")
    with pytest.raises(
        UserError, match=r"before a reply in a dialogue, but a prompt ends with .*add_generation_prompt"
    ):
        notes_of(tmp_path, template, [SINGLE])


def test_a_header_without_a_known_role_that_a_prompt_lacks_is_noted(tmp_path):
    template = "{% for m in messages %}{{ {'user': 'Q', 'assistant': 'A'}[m.role] }}: {{ m.content }}\n{% endfor %}"
    (note,) = notes_of(tmp_path, template, [SINGLE])
    assert "writes 'A:' before a reply in a dialogue" in note and "does it lack the generation prompt?" in note


ROW = "<|im_start|>{{ m.role }}\n{{ %s }}<|im_end|>\n"
HEADER = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def chatml_with(content: str) -> str:
    """Return ChatML that writes contents in another way."""
    return "{% for m in messages %}" + ROW % content + "{% endfor %}" + HEADER


@pytest.mark.parametrize(
    ("content", "did"),
    [
        ("m.content[:10]", "cuts the middle and the end of"),
        ("m.content[10:]", "cuts the beginning"),
        ("m.content[:40] + m.content[-40:]", "cuts the middle of"),
        ("m.content | truncate(200)", "cuts the end"),
        ("m.content.split('\n')[0]", "cuts the middle and the end"),
        ("m.content | e", "escapes characters"),
        ("m.content | lower", "changes upper and lower case of"),
        ("m.content | striptags", "changes characters of"),
        ("m.content.replace('\\\\', '')", "changes characters of"),
        ("m.content.replace('\"', '')", "changes characters of"),
        ("m.role", "leaves out"),
    ],
)
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_template_that_cuts_or_changes_messages_is_stopped_before_anything_is_asked(tmp_path, content, did, role):
    template = chatml_with(f"({content}) if m.role == '{role}' else m.content")
    with pytest.raises(UserError, match=rf"the chat template of .* {did}.* a message of role `{role}`"):
        notes_of(tmp_path, template, [LONG_TALK])


def test_what_only_earlier_turns_lose_matters_only_in_dialogues(tmp_path):
    template = "{% set m = messages[-1] %}" + ROW % "m.content" + HEADER
    assert notes_of(tmp_path, template, [SINGLE]) == []
    with pytest.raises(UserError, match="leaves out a message of role `user`"):
        notes_of(tmp_path, template, [SINGLE, TALK])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("m.content | tojson", "backslashes in a message"),
        ("m.content.replace('\n', ' ')", "changes the white space of a message"),
        ("m.content[:5000]", "cuts or changes a message of role `user` of 20,000 characters"),
        ("m.content.split('</think>')[-1]", "cuts or changes a message of role `user` that holds `</think>`"),
        ("'\ufeff' + m.content", "byte-order mark"),
    ],
)
def test_what_may_be_meant_is_noted(tmp_path, content, says):
    (note,) = notes_of(tmp_path, chatml_with(content), [SINGLE])
    assert says in note


@pytest.mark.parametrize(
    ("content", "part"),
    [("m.content[:10]", "end"), ("m.content[3:]", "beginning"), ("m.content.split('</think>')[-1]", "beginning")],
)
def test_a_prompt_that_is_cut_is_reported_with_its_part(tmp_path, content, part):
    renderer = Renderer(byte_tokenizer(tmp_path / "t", template=chatml_with(content)))
    asked = {"role": "user", "content": "Is this </think> what you meant?"}
    with pytest.raises(UserError, match=rf"cuts the {part} of the message of role `user` that begins 'Is this"):
        renderer.prompt([asked])


EFFORT = CHATML + "{% if reasoning_effort is defined and reasoning_effort == 'low' %}Be quick.{% endif %}"
ALWAYS_THINKS = CHATML + "{% if enable_thinking is defined and enable_thinking is false %}<think></think>{% endif %}"
IF_TRUE = CHATML + "{% if thinking %}<think>{% endif %}"
KEEPS = QWEN_3.replace("{% if loop.last %}", "{% if loop.last or keep_thoughts %}")


@pytest.mark.parametrize(
    ("template", "options", "says"),
    [
        (ALWAYS_THINKS, {"enable_thinking": False}, None),
        (ALWAYS_THINKS, {"enable_thinking": True}, None),
        (ALWAYS_THINKS, {"enable_thinking": "false"}, '`enable_thinking: "false"` changes nothing'),
        (ALWAYS_THINKS, {"enable_thinking": "true"}, '`enable_thinking: "true"` changes nothing'),
        (ALWAYS_THINKS, {"enable_thinking": 0}, "`enable_thinking: 0` changes nothing"),
        (ALWAYS_THINKS, {"enable_thinking": None}, "`enable_thinking: null` changes nothing"),
        (ALWAYS_THINKS, {"enable_thinking": "flase"}, '`enable_thinking: "flase"` changes nothing'),
        (IF_TRUE, {"thinking": False}, None),
        (IF_TRUE, {"thinking": True}, None),
        (IF_TRUE, {"thinking": 1}, None),
        (IF_TRUE, {"thinking": "false"}, '`thinking: "false"` has the effect of true'),
        (IF_TRUE, {"thinking": "no"}, '`thinking: "no"` has the effect of true'),
        (EFFORT, {"reasoning_effort": "low"}, None),
        (EFFORT, {"reasoning_effort": "medium"}, None),
        (EFFORT, {"reasoning_effort": "Low"}, '`reasoning_effort: "Low"` changes nothing'),
        (EFFORT.replace("low", "minimal"), {"reasoning_effort": "minmal"}, '"minmal"` changes nothing'),
        (CHATML + "{% set x = reasoning_effort %}", {"reasoning_effort": "high"}, "changes nothing"),
        (CHATML + "{{ mode | default('off') }}", {"mode": "off"}, None),
        (CHATML + "{% if mode == 'on' %}x{% endif %}", {"mode": "on"}, None),
        (CHATML + "{% if mode == 'on' %}x{% endif %}", {"mode": "off"}, None),
        (CHATML + "{{ budget | default(512) }}", {"budget": 512}, None),
        (KEEPS, {"keep_thoughts": True}, None),
        (GRANITE, {"thinking": True}, None),
    ],
)
def test_an_option_without_its_effect_is_noted_and_a_default_is_not(tmp_path, template, options, says):
    notes = notes_of(tmp_path, template, [SINGLE], template_options=options)
    assert [says in note for note in notes] == ([True] if says else []), notes


def test_a_prompt_that_ends_with_the_end_of_an_answer_is_noted(tmp_path):
    closed = byte_tokenizer(tmp_path / "closed", template=CHATML + "{{ eos_token }}")
    assert "end with `<|im_end|>`, after which nothing is to be said" in Renderer(closed).mark_note(SINGLE)
    assert Renderer(closed, prefill="Sure").mark_note(SINGLE) is None


@pytest.mark.parametrize(
    "order",
    [
        "messages | reverse",
        "messages | sort(attribute='role')",
        "(messages | selectattr('role', 'eq', 'user') | list) + (messages | rejectattr('role', 'eq', 'user') | list)",
    ],
)
def test_a_template_that_changes_the_order_of_the_turns_is_stopped(tmp_path, order):
    template = CHATML.replace("in messages", f"in {order}")
    assert notes_of(tmp_path, template, [SINGLE]) == []
    with pytest.raises(UserError, match="changes the order of the messages"):
        notes_of(tmp_path, template, [LONG_TALK])


def test_a_message_that_is_written_twice_or_a_system_message_behind_the_turns_is_noted(tmp_path):
    (note,) = notes_of(tmp_path / "twice", CHATML.replace("}}<|im_end|>", "}} {{ m['content'] }}<|im_end|>"), [SINGLE])
    assert note == "the template writes a message of role `user` 2 times"
    (note,) = notes_of(tmp_path / "behind", CHATML.replace("in messages", "in messages | reverse"), [WITH_SYSTEM])
    assert note == "the template writes a message of role `system` behind the last turn"


def test_an_error_in_an_expression_of_a_template_is_said_in_words(tmp_path):
    renderer = Renderer(byte_tokenizer(tmp_path / "t", template=CHATML + "{{ tools | length }}"))
    with pytest.raises(UserError, match=r"the chat template cannot render these messages: TypeError: .*NoneType"):
        renderer.prompt(SINGLE)


def test_json_is_no_template(tmp_path):
    folder = byte_tokenizer(tmp_path / "t")
    for number, value in enumerate([{"chat_template": CHATML}, {"default": CHATML}, CHATML, [{"template": CHATML}]]):
        path = tmp_path / f"{number}.json"
        path.write_text("\ufeff" + json.dumps(value, indent=2), encoding="utf-8")
        with pytest.raises(UserError, match=rf"{number}\.json is JSON, no Jinja template"):
            Renderer(folder, template=str(path))


def test_a_template_file_may_begin_with_a_byte_order_mark_and_must_be_utf_8(tmp_path):
    folder, path = byte_tokenizer(tmp_path / "t"), tmp_path / "own.jinja"
    path.write_text(CHATML, encoding="utf-8-sig")
    assert Renderer(folder, template=str(path)).token_ids(SINGLE) == Renderer(folder).token_ids(SINGLE)
    path.write_text(CHATML, encoding="utf-16")
    with pytest.raises(UserError, match=r"own\.jinja is not UTF-8"):
        Renderer(folder, template=str(path))


def test_marks_that_stand_twice_are_noted(tmp_path):
    eager = byte_tokenizer(tmp_path / "eager", adds_bos=True)
    twice = byte_tokenizer(tmp_path / "twice", template="{{ bos_token }}" + "{{ bos_token }}" + CHATML)
    rendered = [{"role": "user", "content": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"}]
    begun = [{"role": "user", "content": "<bos>Once upon a time"}]
    plain = Renderer(eager, template="none")
    assert plain.mark_note(SINGLE) is None and Renderer(eager).mark_note(begun) is None
    assert "begin with `<bos>` twice: the tokenizer adds it" in plain.mark_note(begun)
    assert "begin with `<|im_start|>`, and the tokenizer puts `<bos>` before it" in plain.mark_note(rendered)
    assert "begin with `<bos>` twice" in Renderer(twice).mark_note(SINGLE)
    assert "messages begin with `<|im_start|>`, which the template writes as well" in Renderer(eager).mark_note(
        rendered
    )
    about = [{"role": "user", "content": "What does <|im_start|> mean?"}]
    assert Renderer(eager).mark_note(about) is None
    assert Renderer(byte_tokenizer(tmp_path / "plain"), template="none").mark_note(rendered) is None
