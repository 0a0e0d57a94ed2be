"""Chat templates to compare with: our own writing of Qwen3's rules in Jinja, and the published revisions as edits of the first one."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# The rules of Qwen3's template, written anew, so that they are tested where the published text cannot be fetched. The test gives the
# instructions around the list of tools as tools_before and tools_after.
OWN_QWEN3 = """\
{%- macro turn(role, text) -%}<|im_start|>{{ role }}
{{ text }}<|im_end|>
{% endmacro -%}
{%- set first = messages[0] -%}
{%- if tools -%}
<|im_start|>system
{% if first.role == 'system' %}{{ first.content ~ '\\n\\n' }}{% endif %}{{ tools_before }}
{%- for tool in tools %}{{ '\\n' ~ (tool | tojson) }}{% endfor %}{{ tools_after }}<|im_end|>
{% elif first.role == 'system' -%}{{ turn('system', first.content) }}{%- endif -%}
{%- set found = namespace(question=none) -%}
{%- for message in messages -%}
{%- set answer = message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>') -%}
{%- if message.role == 'user' and not answer %}{% set found.question = loop.index0 %}{% endif -%}
{%- endfor -%}
{%- for message in messages -%}
{%- set position = loop.index0 -%}
{%- if message.role == 'user' or (message.role == 'system' and position > 0) -%}{{ turn(message.role, message.content) }}
{%- elif message.role == 'tool' -%}
{%- if loop.previtem is not defined or loop.previtem.role != 'tool' %}<|im_start|>user{% endif -%}
{{ '\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' }}
{%- if loop.nextitem is not defined or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- elif message.role == 'assistant' -%}
{%- set said = message.content -%}
{%- set thought = message.reasoning_content or '' -%}
{%- if message.reasoning_content is not defined and '</think>' in said -%}
{%- set thought = said[:said.index('</think>')].rstrip('\\n') -%}
{%- if '<think>' in thought %}{% set thought = thought[thought.rindex('<think>') + 7:] %}{% endif -%}
{%- set said = said[said.rindex('</think>') + 8:].lstrip('\\n') -%}
{%- endif -%}
{%- set thinks = found.question is not none and position > found.question and (loop.last or thought.lstrip('\\n')) -%}
{%- set parts = namespace(text=said) -%}
{%- if thinks -%}
{%- set parts.text = '<think>\\n' ~ thought.strip('\\n') ~ '\\n</think>\\n\\n' ~ said.lstrip('\\n') -%}
{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- set f = call.function or call -%}
{%- set given = f.arguments if f.arguments is string else f.arguments | tojson -%}
{%- set gap = '\\n' if said or not loop.first else '' -%}
{%- set parts.text = parts.text ~ gap ~ '<tool_call>\\n{"name": "' ~ f.name ~ '", "arguments": ' ~ given ~ '}\\n</tool_call>' -%}
{%- endfor -%}
{{ turn('assistant', parts.text) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif -%}
"""


def _edited(text, edits):
    for old, new in edits:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        text = text.replace(old, new)
    return text


def _between(text, begin, end):
    start = text.index(begin)
    return start, text.index(end, start)


_THINK_PROMPT = """\
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
"""


def published_revisions(first):
    """{name: template} of what Qwen published: Qwen3 in two revisions, and the two models of July 2025."""
    content_or_empty = """\
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
"""
    loop = "{%- for message in messages %}\n"
    second = _edited(
        first,
        [
            ('message.role == "user" and not(', 'message.role == "user" and message.content is string and not('),
            (loop, loop + content_or_empty),
            ("'\\n' + message.content + '<|im_end|>' + '\\n'", "'\\n' + content + '<|im_end|>' + '\\n'"),
            ("        {%- set content = message.content %}\n        {%- set reasoning", "        {%- set reasoning"),
            ("message.reasoning_content is defined and message.reasoning_content is not none", "message.reasoning_content is string"),
            ("{{- message.content }}", "{{- content }}"),
        ],
    )
    start, end = _between(second, "            {%- if '</think>' in message.content %}", "        {%- if loop.index0 > ns")
    lines = second[start:end].replace("message.content", "content").splitlines(keepends=True)
    lines[1], lines[2] = lines[2], lines[1]
    second = second[:start] + "".join(lines) + second[end:]

    start, end = _between(second, "{%- set ns = namespace", loop + content_or_empty)
    instruct = _edited(second[:start] + second[end:], [(_THINK_PROMPT, "")])
    start, end = _between(instruct, "        {%- set reasoning_content = ''", "        {%- if message.tool_calls %}")
    instruct = instruct[:start] + "        {{- '<|im_start|>' + message.role + '\\n' + content }}\n" + instruct[end:]

    prompt = "{{- '<|im_start|>assistant\\n' }}"
    thinking = _edited(second, [(_THINK_PROMPT, ""), (prompt, prompt.replace("assistant\\n", "assistant\\n<think>\\n"))])
    return {"Qwen3, first": first, "Qwen3, second": second, "Qwen3-Instruct-2507": instruct, "Qwen3-Thinking-2507": thinking}
