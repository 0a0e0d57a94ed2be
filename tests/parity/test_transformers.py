"""Logits, gradients, training and generation against Transformers on the same files, live.

Tolerances: in fp32 every tensor's difference stays within 1e-5 of its norm. In bf16 both sides round every product and sum to 8 bits
of mantissa in different orders; the loss agrees to 1 % and every gradient points the same way (cosine at least 0.99).
"""

import json
import subprocess

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from paths import BUILD_BIN

IGNORED = -100
SIZES = dict(
    vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None,
)  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 16}
# Qwen3's heads · head_dim (4 · 32) is not its hidden size (case A1).
CONFIGS = {
    "qwen3 untied": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=False),
    "qwen3 tied": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True),
    "qwen3 yarn": Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True, rope_parameters=YARN),
    "llama": LlamaConfig(**SIZES, tie_word_embeddings=False),
}


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def folder(request, tmp_path):
    """A folder of random weights, large enough that no gradient is all noise; norms differ from 1."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(request.param, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.08)
    model.save_pretrained(tmp_path)
    return tmp_path


def load(folder, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager")


def ask(tmp_path, **request):
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request))
    result = subprocess.run([BUILD_BIN / "parity_dump", file], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def make_batch(seed, rows=2, length=24, pieces=None):
    """Random ids; labels are the next token inside a piece, and a few labels are left out as a prompt's are."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, SIZES["vocab_size"], (rows, length), generator=generator)
    starts = pieces or [[0]] * rows
    labels = torch.full_like(ids, IGNORED)
    labels[:, :-1] = ids[:, 1:]
    for row, row_starts in enumerate(starts):
        for start in row_starts[1:]:
            labels[row, start - 1] = IGNORED
    labels[0, 1:4] = IGNORED
    return {"input_ids": ids.tolist(), "labels": labels.tolist(), "piece_starts": starts}


def positions(batch):
    rows = []
    for ids, starts in zip(batch["input_ids"], batch["piece_starts"]):
        ends = starts[1:] + [len(ids)]
        rows.append([i - start for start, end in zip(starts, ends) for i in range(start, end)])
    return torch.tensor(rows)


def summed_loss(model, batch):
    """Σ of the valid tokens' losses in fp32, and the logits. Restarting positions make Transformers mask documents by itself."""
    packed = any(len(starts) > 1 for starts in batch["piece_starts"])
    extra = {"position_ids": positions(batch)} if packed else {}
    logits = model(input_ids=torch.tensor(batch["input_ids"]), use_cache=False, **extra).logits
    labels = torch.tensor(batch["labels"])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return loss, logits


def num_valid(batch):
    return sum(label != IGNORED for row in batch["labels"] for label in row)


def relative_difference(ours, theirs):
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


PIECES = {"whole rows": None, "packed": [[0, 5, 14], [0, 23]]}


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES.keys())
def test_fp32_logits_loss_and_every_gradient_equal_transformers(folder, tmp_path, pieces):
    batch = make_batch(seed=2, pieces=pieces)
    result = ask(tmp_path, model=str(folder), dtype="float32", batch=batch, tensors=str(tmp_path / "ours"))
    ours = load_file(tmp_path / "ours")
    model = load(folder)
    loss, logits = summed_loss(model, batch)
    (loss / num_valid(batch)).backward()

    assert result["loss"] == pytest.approx(loss.item() / num_valid(batch), rel=1e-6)
    assert relative_difference(ours["logits"], logits) < 1e-5
    gradients = {f"grad {name}": parameter.grad for name, parameter in model.named_parameters()}
    assert set(ours) - {"logits"} == set(gradients)
    differences = {name: relative_difference(ours[name], gradient) for name, gradient in gradients.items()}
    assert max(differences.values()) < 1e-5, differences


def test_bf16_loss_and_gradients_agree_within_its_rounding(folder, tmp_path):
    batch = make_batch(seed=3, rows=4, length=48)
    result = ask(tmp_path, model=str(folder), dtype="bfloat16", batch=batch, tensors=str(tmp_path / "ours"))
    ours = load_file(tmp_path / "ours")
    model = load(folder, torch.bfloat16)
    loss, logits = summed_loss(model, batch)
    (loss / num_valid(batch)).backward()
    assert result["loss"] == pytest.approx(loss.item() / num_valid(batch), rel=1e-2)
    assert ours["logits"].dtype == torch.bfloat16
    cosines = {}
    for name, parameter in model.named_parameters():
        a, b = ours[f"grad {name}"].double().flatten(), parameter.grad.double().flatten()
        cosines[name] = (a @ b / (a.norm() * b.norm())).item()
    assert min(cosines.values()) > 0.99, cosines


def test_ten_adamw_steps_with_accumulation_equal_a_transformers_loop(folder, tmp_path):
    settings = {"lr": 3e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "max_norm": 1.0}
    steps = [[make_batch(100 * (step % 2) + part, rows=1, pieces=[[0, 9 + part]]) for part in range(2)] for step in range(10)]
    ours = ask(tmp_path, model=str(folder), dtype="float32", steps=steps, optimizer=settings)

    model = load(folder)
    norms = [p for name, p in model.named_parameters() if name.endswith("norm.weight")]
    others = [p for name, p in model.named_parameters() if not name.endswith("norm.weight")]
    optimizer = torch.optim.AdamW(
        [{"params": others}, {"params": norms, "weight_decay": 0.0}],
        lr=settings["lr"], betas=(settings["beta1"], settings["beta2"]), eps=settings["eps"], weight_decay=settings["weight_decay"],
    )  # fmt: skip
    losses, gradient_norms = [], []
    for step in steps:
        valid = sum(num_valid(batch) for batch in step)
        total = 0.0
        for batch in step:
            loss = summed_loss(model, batch)[0] / valid
            loss.backward()
            total += loss.item()
        gradient_norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), settings["max_norm"]).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    assert losses[-1] < 0.8 * losses[0], "the same rows come again, so the loss must fall"
    assert ours["losses"] == pytest.approx(losses, rel=1e-5)
    assert ours["norms"] == pytest.approx(gradient_norms, rel=1e-5)


def test_greedy_generation_gives_the_same_tokens(folder, tmp_path):
    prompt = make_batch(seed=5, rows=1, length=11)["input_ids"][0]
    ours = ask(tmp_path, model=str(folder), dtype="float32", prompt=prompt, max_new_tokens=40)["generated"]
    theirs = load(folder).generate(torch.tensor([prompt]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0)
    assert ours == theirs[0, len(prompt) :].tolist()
