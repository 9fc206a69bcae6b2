"""Reading rows: no text changes, and what is wrong is reported with file and line."""

import datetime
import os
import uuid
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from refusal_eval.core.errors import UserError
from refusal_eval.data import rows as rows_module
from refusal_eval.data.rows import cell_text, need_columns, read_rows, text_or_none, valid_text

ODD = Path(__file__).parents[1] / "odd_inputs"


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def test_json_keeps_types_and_every_character(tmp_path):
    line = '{"prompt": "a\\u2028b \\u00e9\\n", "n": 3, "x": null}'
    wanted = [{"prompt": "a\u2028b é\n", "n": 3, "x": None}, {"prompt": " NA "}]
    assert read_rows(written(tmp_path, "a.jsonl", f'\ufeff{line}\n\n{{"prompt": " NA "}}')) == wanted
    assert read_rows(written(tmp_path, "a.json", f'[{line}, {{"prompt": " NA "}}]')) == wanted


def test_csv_gives_strings_as_they_stand(tmp_path):
    text = '# a comment\nprompt,score\n"two\r\nlines, ""quoted""",NA\n007,1.0\nnull,\n"",NaN\n'
    rows = read_rows(written(tmp_path, "a.csv", text), skip_lines=1)
    assert rows == [
        {"prompt": 'two\r\nlines, "quoted"', "score": "NA"},
        {"prompt": "007", "score": "1.0"},
        {"prompt": "null", "score": ""},
        {"prompt": "", "score": "NaN"},
    ]
    assert len(read_rows(written(tmp_path, "a.csv", "prompt\n" + "x" * 300_000))[0]["prompt"]) == 300_000
    for encoding in (None, "utf-8", "UTF8"):
        path = written(tmp_path, "a.csv", "\ufeffp,q,,\n1,2,,\n")  # spreadsheets leave columns without a name
        assert read_rows(path, encoding=encoding) == [{"p": "1", "q": "2", "": ""}]


def test_parquet_gives_plain_values(tmp_path):
    columns = {"p": ["NA", ""], "f": [1.5, float("nan")], "d": [datetime.date(2026, 1, 2), None], "b": [b"x", None]}
    columns["m"] = [[{"role": "user", "content": "hi"}], []]
    # A folder name of the form key=value must not become a column.
    folder = tmp_path / "lang=en"
    folder.mkdir()
    pyarrow.parquet.write_table(pyarrow.table(columns), folder / "a.parquet")
    assert read_rows(folder / "a.parquet") == [
        {"p": "NA", "f": 1.5, "d": "2026-01-02", "b": None, "m": [{"role": "user", "content": "hi"}]},
        {"p": "", "f": None, "d": None, "b": None, "m": []},
    ]


def test_uuids_and_durations_of_parquet_are_values(tmp_path):
    """A column of UUIDs as cluster was empty, so that its prompts counted as independent."""
    ids = pyarrow.array([uuid.UUID(int=7).bytes, None], pyarrow.uuid())
    waits = pyarrow.array([datetime.timedelta(minutes=1.5), None])
    pyarrow.parquet.write_table(pyarrow.table({"id": ids, "wait": waits}), tmp_path / "a.parquet")
    first, second = read_rows(tmp_path / "a.parquet")
    assert first == {"id": "00000000-0000-0000-0000-000000000007", "wait": 90.0}
    assert second == {"id": None, "wait": None}


def test_json_in_parquet_is_decoded_wherever_it_stands(tmp_path):
    texts = pyarrow.array(['{"role": "user", "content": "a \\"b\\""}', None, '"c"'], pyarrow.json_())
    lists = pyarrow.ListArray.from_arrays(pyarrow.array([0, 1, 1, 3], pyarrow.int32()), texts)
    nested = pyarrow.StructArray.from_arrays([texts], names=["x"])
    pyarrow.parquet.write_table(pyarrow.table({"t": texts, "m": lists, "n": nested}), tmp_path / "a.parquet")
    message = {"role": "user", "content": 'a "b"'}
    assert read_rows(tmp_path / "a.parquet") == [
        {"t": message, "m": [message], "n": {"x": message}},
        {"t": None, "m": [], "n": {"x": None}},
        {"t": "c", "m": [None, "c"], "n": {"x": "c"}},
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": \n', r"a\.jsonl, line 2: is not valid JSON"),
        ("a.jsonl", '{"a": 1}\n\n["b"]\n', r"a\.jsonl, line 3: must be a JSON object .* not a list"),
        ("a.jsonl", "\n", r"a\.jsonl: holds no rows"),
        ("a.jsonl", b"\xff\xfe{}", r"a\.jsonl: is not UTF-8 text"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl, line 1: is not valid JSON"),
        (
            "a.jsonl",
            '{"a": 1}\n{"q": "b", "q": "c"}\n',
            r'a\.jsonl, line 2: the key "q" stands twice in one',
        ),
        (
            "a.jsonl",
            '{"a": {"b": [{"q": 1}, {"q": 1, "r": "q\\"", "q": 1}]}}',
            r'a\.jsonl, line 1: the key "q" stands twice',
        ),
        ("a.json", '[{"q": "q: q"},\n{"q": 1,\n"\\u0071": 2}]', r'a\.json, line 3: the key "q" stands twice'),
        ("a.json", '{"a": 1}', r"a\.json: must be a list of JSON objects, not an object"),
        ("a.json", '{"a": [], "b": 1}', r"not an object, whose values are not all lists of them"),
        ("a.json", '{"a": [{}], "b": [1]}', r"a\.json, `b`, row 1: must be a JSON object"),
        ("a.json", '{"a": [{"group": 1}]}', r"a\.json, `a`, row 1: has a column `group`, which is the name"),
        ("a.json", "{}", r"a\.json: must be a list of JSON objects"),
        ("a.json", "[1]", r"a\.json, row 1: must be a JSON object"),
        ("a.json", "[", r"a\.json: is not valid JSON"),
        ("a.csv", "", r"a\.csv: holds no rows"),
        ("a.csv", "p,q\n", r"a\.csv: holds no rows"),
        ("a.csv", "p,q\n1,2\n3\n", r"a\.csv, line 3 \(row 2\): has 1 fields, the header has 2"),
        ("a.csv", 'p,q\n"1\n1",2\n3,"x\n', r"a\.csv, line 4: is not valid CSV"),
        ("a.csv", "p,q,p\n1,2,3\n", r"a\.csv: two columns are called `p`"),
        ("a.parquet", "PAR1", r"a\.parquet: is not a valid Parquet file"),
        ("a.txt", "[]", r"tell the format from the ending `\.txt` \(allowed: \.csv, \.json, \.jsonl, \.parquet\)"),
    ],
)
def test_bad_files_are_reported(tmp_path, name, content, message):
    with pytest.raises(UserError, match=message):
        read_rows(written(tmp_path, name, content))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ((ODD / "12-separators" / "semicolon.csv").read_text(), "separated by `;`"),
        ((ODD / "12-separators" / "tab.csv").read_text(), "separated by a tab"),
        ((ODD / "12-separators" / "sep.csv").read_text(), "line 1: `sep=;` is a note to Excel"),
        ("sep=,\r\nprompt,cat\r\nHow?,a\r\n", "line 1: `sep=,` is a note to Excel"),
        ("prompt|cat\nHow, and why?|a\n", r"separated by `\|`"),
        ("\n\nprompt;cat\nHow;a\n", "separated by `;`"),
        ("id;prompt, whole;cat\n1;How?;a\n", "separated by `;`"),
        ('prompt;cat\n"How do I;\nkill it?";a\n', "separated by `;`"),
        ("\ufeffprompt\uff1bcat\nHow\uff1ba\n", "separated by `\uff1b`"),
    ],
)
def test_a_csv_with_another_separator_is_refused_by_its_name(tmp_path, content, said):
    with pytest.raises(UserError, match=said):
        read_rows(written(tmp_path, "a.csv", content))


@pytest.mark.parametrize("content", ["p;q\nplain\n", '"p;q"\n"a;b"\n', "p\nHow; or why | what?\n", "p,q;r\n1,2;3\n"])
def test_a_csv_may_hold_other_separators_in_its_cells(tmp_path, content):
    assert len(read_rows(written(tmp_path, "a.csv", content))) == 1


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("a.csv", "prompt\nHow?\n<<<<<<< HEAD\nWhy?\n=======\nWho?\n>>>>>>> other\n", 3),
        ("a.csv", "<<<<<<< HEAD\nprompt\n=======\nquestion\n>>>>>>> other\nHow?\n", 1),
        ("a.csv", "prompt,q\nHow?,1\n=======\nWho?,2\n", 3),
        ("a.jsonl", '{"p": "How?"}\n<<<<<<< HEAD\n{"p": "Why?"}\n=======\n{"p": "Who?"}\n>>>>>>> other\n', 2),
        ("a.json", '[{"p": "How?"},\n<<<<<<< HEAD\n{"p": "Why?"}\n=======\n{"p": "Who?"}\n>>>>>>> other\n]', 2),
    ],
)
def test_marks_of_a_merge_are_no_prompts(tmp_path, name, content, line):
    with pytest.raises(UserError, match=rf"{name}, line {line}: .* is a mark of an unfinished merge"):
        read_rows(written(tmp_path, name, content))


def test_two_columns_of_one_name_are_refused_in_parquet_too(tmp_path):
    table = pyarrow.Table.from_arrays([pyarrow.array(["a"]), pyarrow.array(["b"])], names=["prompt", "prompt"])
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: two columns are called `prompt`"):
        read_rows(tmp_path / "a.parquet")


def test_a_prompt_may_speak_of_marks_of_a_merge(tmp_path):
    text = "What does this mean?\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other"
    assert read_rows(written(tmp_path, "a.csv", f'p\n"{text}"\n')) == [{"p": text}]


def test_missing_files_are_reported_by_their_given_name(tmp_path):
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        with pytest.raises(UserError, match=r"^my file: there is no such file"):
            read_rows(tmp_path / name, name="my file")


def test_options_of_another_format_are_refused(tmp_path):
    for name, option in (("a.jsonl", {"skip_lines": 1}), ("a.parquet", {"encoding": "gb18030"})):
        (key,) = option
        with pytest.raises(UserError, match=f"{key} is for CSV.* files only"):
            read_rows(written(tmp_path, name, "{}"), **option)


@pytest.mark.parametrize("content", ["prompt^cat\nHow?^a\n", "id:prompt\n1:How?\n", "prompt;cat;note\nHow?;a\n"])
def test_a_column_that_stands_inside_the_only_one_is_not_advised(tmp_path, content):
    rows = read_rows(written(tmp_path, "a.csv", content))
    with pytest.raises(UserError, match=r"no column `prompt`: its only column is '.*'\. Are the columns separated by"):
        need_columns(rows, ["prompt"], "a.csv")


def test_a_missing_column_is_reported_with_the_nearest_name():
    rows, message = (
        [{"prompt": "a"}, {"category": "b"}],
        r"f: has no column `promt`; did you mean `prompt`\? \(allowed: ",
    )
    with pytest.raises(UserError, match=message + r"category, prompt\)"):
        need_columns(rows, ["promt"], "f")
    need_columns(rows, ["prompt", "category", None], "f")


def test_cells_as_text():
    cells = ["a ", " ", "", None, 3, 2.5, True, float("nan"), ["x", 1]]
    assert [text_or_none(cell, "f") for cell in cells] == ["a ", None, None, None, "3", "2.5", "true", None, '["x",1]']
    assert text_or_none("1.0", "f") == "1.0" and text_or_none(1e22, "f") == "1e+22"


def test_whole_numbers_of_a_column_with_a_gap_are_whole(tmp_path):
    """Arrow and pandas write such a column as 1.0, NaN, 2.0."""
    columns = {"prompt": ["a", "b", "c"], "group": [1.0, None, 2.0], "level": [1.5, 2.0, None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet")
    assert [[cell_text(row, column, "f") for row in rows] for column in ("group", "level")] == [
        ["1", None, "2"],
        ["1.5", "2", None],
    ]


def test_half_a_surrogate_pair_is_reported():
    with pytest.raises(UserError, match=r"f, row 3: holds \\ud83d alone.*character 2"):
        valid_text("x\ud83d", "f, row 3")
    assert valid_text("x\U0001f600", "f") == "x\U0001f600"


def test_the_encoding_of_text_files(tmp_path):
    text = "p\n\u4f60\u597d \u201cx\u201d\n"
    for encoding in ("gb18030", "utf-16", "utf-8"):
        (tmp_path / "a.csv").write_bytes(text.encode(encoding))
        assert read_rows(tmp_path / "a.csv", encoding=encoding) == [{"p": "\u4f60\u597d \u201cx\u201d"}]
    (tmp_path / "a.jsonl").write_bytes('{"p": "\u4f60"}\n'.encode("gb18030"))
    assert read_rows(tmp_path / "a.jsonl", encoding="gb18030") == [{"p": "\u4f60"}]
    with pytest.raises(UserError, match=r"is not UTF-8 text .* save it as UTF-8, or name its `encoding`"):
        read_rows(tmp_path / "a.jsonl")
    (tmp_path / "a.csv").write_bytes(b"p\n\xff\xff\n")
    with pytest.raises(UserError, match=r"is not gb18030 text .* name its `encoding`"):
        read_rows(tmp_path / "a.csv", encoding="gb18030")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "punycode", "idna", "utf-8"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_bytes_that_are_no_text_of_the_encoding_are_reported(tmp_path, name, encoding):
    for content in (b"p,q\n1,2\n3,4", b"xn--\xe4\xb8-\xff\xfe", b"\x00\xd8\x00\x00", b"xn--999999999b.p\n1"):
        try:
            content.decode(encoding)
        except UnicodeError:
            with pytest.raises(UserError, match=rf"a\.\w+: is not {encoding} text .* name its `encoding`"):
                read_rows(written(tmp_path, name, content), encoding=encoding)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet"])
def test_only_regular_files_are_read(tmp_path, name):
    os.mkfifo(tmp_path / name)  # nobody writes to it: reading would never end
    with pytest.raises(UserError, match=rf"{name}: is no regular file"):
        read_rows(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=rf"{name}: is no regular file"):
        read_rows(tmp_path / name)
    for missing in (f"a\0{name}", "x" * 300 + name, f"a.txt/{name}"):
        (tmp_path / "a.txt").write_text("x")
        with pytest.raises(UserError, match=r"there is no such file|cannot be read"):
            read_rows(tmp_path / missing)


ODD = {
    "a time after the year 9999": pyarrow.array([2**60], pyarrow.timestamp("ms")),
    "a day before the year 1": pyarrow.array([-(2**30)], pyarrow.date32()),
    "a time zone that nobody knows": pyarrow.array([0], pyarrow.timestamp("s", tz="Mars/Olympus")),
    "a length of time": pyarrow.array([2**62], pyarrow.duration("ms")),
    "text that is no UTF-8": pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0"), pyarrow.py_buffer(b"\xff")]
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_parquet_values_that_python_cannot_hold_are_reported(tmp_path, what):
    pyarrow.parquet.write_table(pyarrow.table({"prompt": ["x"], "odd": ODD[what]}), tmp_path / "a.parquet")
    try:
        assert set(read_rows(tmp_path / "a.parquet")[0]) == {"prompt", "odd"}
    except UserError as error:
        assert "a.parquet: holds values that cannot be read: " in str(error)


def test_a_small_parquet_file_of_very_many_rows_is_refused_before_it_is_read(tmp_path):
    many = pyarrow.repeat(pyarrow.scalar("x"), 2_100_000)
    pyarrow.parquet.write_table(pyarrow.table({"prompt": many}), tmp_path / "a.parquet", use_dictionary=True)
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with pytest.raises(UserError, match=r"a\.parquet: holds 2,100,000 rows, at most 2,000,000 are read; .*need"):
        read_rows(tmp_path / "a.parquet")


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_small_parquet_file_of_very_long_texts_is_refused_before_memory_ends(tmp_path, monkeypatch, dictionary):
    monkeypatch.setattr(rows_module, "MOST_BYTES", 10_000_000)
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 5000), ["x" * 10_000])
    pyarrow.parquet.write_table(pyarrow.table({"prompt": texts}), tmp_path / "a.parquet", store_schema=dictionary)
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with pytest.raises(UserError, match=r"a\.parquet: holds more than 10 MB, at most 10 MB are read; .*need"):
        read_rows(tmp_path / "a.parquet")


NINE_ROWS = {"a.jsonl": '{"p": 1}\n' * 9, "a.csv": "p\n" + "100\n" * 9, "a.json": "[{}" + ",{}" * 8 + "]"}


@pytest.mark.parametrize(("name", "content"), NINE_ROWS.items())
def test_text_files_of_very_many_rows_are_refused(tmp_path, monkeypatch, name, content):
    path = written(tmp_path, name, content)
    assert len(read_rows(path)) == 9
    monkeypatch.setattr(rows_module, "MOST_BYTES", 25)
    with pytest.raises(UserError, match=rf"{name}: holds \d+ B, at most 25 B are read"):
        read_rows(path)
    monkeypatch.undo()
    monkeypatch.setattr(rows_module, "MOST_ROWS", 8)
    with pytest.raises(UserError, match=rf"{name}: holds .*rows, at most 8 are read"):
        read_rows(path)


def test_lists_in_a_json_object_are_groups_of_rows(tmp_path):
    file = tmp_path / "a.json"
    file.write_text('{"one": [{"q": "a"}, {"q": "b"}], "none": [], "two": [{"q": "c"}]}')
    assert [(row["q"], row["group"]) for row in read_rows(file)] == [("a", "one"), ("b", "one"), ("c", "two")]
