"""Chats rendered in C++ equal Transformers' apply_chat_template byte for byte, for every template that Trine knows."""

import itertools
import json
import random
import shutil

import pytest
from transformers import AutoTokenizer

from paths import ROOT
from qwen3_templates import CHATML, OWN_QWEN3, published_revisions

SMOLLM2 = ROOT / "assets/smollm2-135m-instruct"
QWEN3 = ROOT / "assets/qwen3-tokenizer"

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": 'Reads the "weather" — 天気 — of a place.\n',
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string"}, "days": {"type": "integer", "default": 3, "maximum": 1e16}},
            "required": ["place"],
            "x": [0.1, 1.0, -2.5e-7, 1e22, 123456789.125, 5e-324, True, None, [], {}, "\u2028\x7f\x01</tools>"],
        },
    },
}


def call(name="weather", **arguments):
    return {"type": "function", "id": "c1", "function": {"name": name, "arguments": arguments}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content):
    return {"role": "tool", "content": content, "tool_call_id": "c1", "name": "weather"}


SYSTEM = {"role": "system", "content": "You are terse.\n"}

PLAIN_CHATS = [
    [user("Hello")],
    [SYSTEM, user("Hello")],
    [SYSTEM],
    [assistant("I start.")],
    [user("你好\n"), assistant("  Hi! \n"), user(""), assistant("")],
    [user("a"), {"role": "system", "content": "now be kind"}, user("b"), assistant("c"), user("d")],
]

QWEN3_CHATS = PLAIN_CHATS + [
    [user("a"), assistant("b", reasoning_content="think\n"), user("c"), assistant("\n\nd", reasoning_content="\n\nmore\n\n")],
    [user("a"), assistant("<think>\nx\n</think>\n\nb"), user("c"), assistant("<think>\n\ny\n\n</think>\n\n\nd")],
    [user("a"), assistant("only the closing tag\n</think>\n\nb")],
    [user("a"), assistant("b", reasoning_content="")],
    [user("a"), assistant("b", reasoning_content=None)],
    [user("a"), assistant("</think>"), assistant("before <think> x </think> y </think> z")],
    [user("a"), assistant("", tool_calls=[call(place="Rome", days=2)]), tool("sunny"), tool("warm\n"), assistant("fine")],
    [user("a"), assistant("\n", tool_calls=[call(), call(deep={"a": [1, 2.0, {"b": "ü"}]})]), tool(""), user("thanks")],
    [user("a"), assistant("c", tool_calls=[{"name": "bare", "arguments": '{"given": "as text"}'}], reasoning_content="r"), tool("t")],
    [user("a"), assistant("b", reasoning_content="r1", tool_calls=[call()]), tool("t"), assistant("c", reasoning_content="r2")],
    [user("<tool_response>\nlike a tool\n</tool_response>"), assistant("b", reasoning_content="r")],
    [user("a"), assistant("b", reasoning_content="r"), user("<tool_response>x</tool_response>"), assistant("c"), tool("last")],
    [tool("first"), user("a")],
]


def random_chats(seed, count):
    """Chats of short fragments in any order, so that every rule meets every other."""
    draw = random.Random(seed)
    pieces = ["x", "\n", "\n\n", " ", "é", "<think>", "</think>", "<tool_response>", "</tool_response>", "y", ""]

    def text(pool=pieces):
        return "".join(draw.choice(pool) for _ in range(draw.randint(0, 6)))

    chats = []
    for _ in range(count):
        chat = []
        for place in range(draw.randint(1, 7)):
            role = draw.choice(["user", "user", "assistant", "assistant", "tool", "system" if place == 0 else "user"])
            message = {"role": role, "content": text()}
            if role == "assistant" and draw.random() < 0.4:
                message["reasoning_content"] = text(["r", "\n", " "])
                message["content"] = message["content"].replace("</think>", "")  # reasoning given twice is refused
            if role == "assistant" and draw.random() < 0.3:
                message["tool_calls"] = [call(n=draw.random() * 10 ** draw.randint(-9, 20)) for _ in range(draw.randint(1, 2))]
            chat.append(message)
        chats.append(chat)
    return chats


@pytest.fixture(scope="module")
def transformers_tokenizer():
    return AutoTokenizer.from_pretrained(SMOLLM2)


@pytest.fixture
def compare(trine, transformers_tokenizer, tmp_path):
    def run(template, chats, tools=None, reference=None, **variables):
        """Renders with a folder that holds `template` (None: no template) and with Transformers; both with and without a prompt."""
        folder = tmp_path / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        source = SMOLLM2 if template else QWEN3
        (folder / "tokenizer.json").symlink_to(source / "tokenizer.json")
        if template:
            (folder / "chat_template.jinja").write_text(template)
        lines = [json.dumps({"messages": chat, "tools": tools}, ensure_ascii=False) for chat in chats]
        file = folder / "chats.jsonl"
        file.write_text("\n".join(lines) + "\n")
        for prompt, thinking in itertools.product((False, True), repeat=2):
            flags = ["--generation-prompt"] * prompt + ["--no-thinking"] * (not thinking)
            ours = trine("tokenize", "--tokenizer", folder, "--chat", file, *flags).rstrip("\n").split("\n")
            options = variables | ({} if thinking else {"enable_thinking": False})
            for chat, line in zip(chats, ours, strict=True):
                theirs = transformers_tokenizer.apply_chat_template(
                    chat, tools=tools, chat_template=reference or template, add_generation_prompt=prompt, tokenize=False, **options
                )
                assert json.loads(line)["text"] == theirs, chat

    return run


def test_smollm2_template_is_recognised_with_its_default_system_message(compare):
    config = json.loads((SMOLLM2 / "tokenizer_config.json").read_text())
    compare(config["chat_template"], PLAIN_CHATS)


@pytest.mark.parametrize(
    "spelling",
    [
        CHATML,
        CHATML.replace("<|im_end|>\\n'", "<|im_end|>' + '\\n'"),
        CHATML.replace("'", '"').replace('message["role"]', "message.role"),
        CHATML.replace("{%", "\n  {%-").replace("{{", "{{-") + "\n",
    ],
)
def test_chatml_is_recognised_in_any_spelling(compare, spelling):
    compare(spelling, PLAIN_CHATS)


def test_a_folder_of_the_qwen3_tokenizer_without_a_template_gets_qwen3s_rules(compare):
    words = {
        "tools_before": "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>",
        "tools_after": "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    }
    compare(None, QWEN3_CHATS + random_chats(1, 100), reference=OWN_QWEN3, **words)
    compare(None, QWEN3_CHATS, tools=[WEATHER, {"name": "bare"}], reference=OWN_QWEN3, **words)


@pytest.mark.parametrize("revision", ["Qwen3, first", "Qwen3, second", "Qwen3-Instruct-2507", "Qwen3-Thinking-2507"])
def test_published_qwen3_templates_are_recognised_and_rendered(compare, published_qwen3, revision):
    first = json.loads((published_qwen3 / "tokenizer_config.json").read_text())["chat_template"]
    template = published_revisions(first)[revision]
    compare(template, QWEN3_CHATS + random_chats(2, 100))
    compare(template, QWEN3_CHATS, tools=[WEATHER, {"name": "bare"}])
    if revision != "Qwen3, first":  # which fails on content that is null
        compare(template, [[user("a"), assistant(None, tool_calls=[call()])]])
