"""Make a real sequence-classification model of MiniLM, for the engine environment: its head is fitted, not its body.

Usage: python make_classifier.py BODY_FOLDER TEXTS.json OUT_FOLDER; TEXTS.json holds [[text, 0 or 1], ...].
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification

SMALL = 1e-3  # the pooler's tanh is as good as linear there


def main(body_folder: str, texts_path: str, out: str) -> None:
    """Fit a logistic regression on the state of [CLS], and fold it into the classification head."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(body_folder)
    body = AutoModel.from_pretrained(body_folder).eval()
    texts, labels = zip(*json.loads(Path(texts_path).read_text()), strict=True)
    with torch.inference_mode():
        packed = tokenizer(list(texts), padding=True, truncation=True, max_length=128, return_tensors="pt")
        states = body(**packed).last_hidden_state[:, 0]
    states, target = states.clone(), torch.tensor(labels, dtype=torch.float32)
    mean, spread = states.mean(0), states.std(0).clamp_min(1e-2)
    weight = torch.zeros(states.shape[1], requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=200)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logits = ((states - mean) / spread) @ weight + bias
        value = torch.nn.functional.binary_cross_entropy_with_logits(logits, target) + 0.02 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    scaled = (weight / spread).detach()
    config = BertConfig.from_pretrained(body_folder)
    config.id2label, config.label2id = {0: "complies", 1: "refuses"}, {"complies": 0, "refuses": 1}
    config.num_labels = 2
    model = BertForSequenceClassification(config).eval()
    model.bert.load_state_dict(body.state_dict(), strict=False)
    with torch.no_grad():
        model.bert.pooler.dense.weight.copy_(torch.eye(config.hidden_size) * SMALL)
        model.bert.pooler.dense.bias.zero_()
        model.classifier.weight.copy_(torch.stack([torch.zeros_like(scaled), scaled / SMALL]))
        model.classifier.bias.copy_(torch.stack([torch.zeros(()), (bias - scaled @ mean).detach().squeeze()]))
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
