"""Calls of tools: the form is told from the template, written by a grammar, and read back however the text is cut."""

import json

import pytest
from tokenizers import AddedToken

from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.tokenizer import TextStream, Tokenizer
from ms_ascend_ops.llm.tool_calls import Call, CallReader, ToolForm, tool_form
from tests.llm import tiny

# As the templates of these families write it, cut down to what matters here.
HERMES = (
    "{% if tools %}<|im_start|>system\n<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>"
    "answer in <tool_call></tool_call>.<|im_end|>\n{% endif %}{% for message in messages %}<|im_start|>"
    "{{ message.role }}\n{{ message.content or '' }}{% for call in message.tool_calls or [] %}\n<tool_call>\n"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if loop.first and tools %}{% for tool in tools %}"
    "{{ tool | tojson }}{% endfor %}{% endif %}{% if message.tool_calls %}"
    '{"name": "{{ message.tool_calls[0].function.name }}", "parameters": '
    "{{ message.tool_calls[0].function.arguments | tojson }}}{% else %}{{ message.content }}{% endif %}<|im_end|>"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MISTRAL = (
    "{% if tools %}[AVAILABLE_TOOLS]{{ tools | tojson }}{% endif %}{% for message in messages %}"
    "{% if message.tool_calls %}[TOOL_CALLS][{% for call in message.tool_calls %}"
    '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}, "id": "{{ call.id }}"}'
    "{% endfor %}]{% else %}[INST]{{ message.content }}[/INST]{% endif %}{% endfor %}"
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather", "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"],
            "additionalProperties": False,
        },
    },
}  # fmt: skip
TIME = {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}


def form_of(text, *more):
    backend = tiny.backend()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in more])
    tokenizer = Tokenizer(backend)
    return tool_form(ChatTemplate(text, "t"), tokenizer), tokenizer


def test_forms():
    hermes, _ = form_of(HERMES)
    assert (hermes.begin, hermes.end, hermes.key, hermes.in_template) == (
        "<tool_call>",
        "</tool_call>",
        "arguments",
        True,
    )
    llama, _ = form_of(LLAMA)
    assert (llama.begin, llama.end, llama.key, llama.in_template) == ("", "", "parameters", True)
    mistral, tokenizer = form_of(MISTRAL, "[TOOL_CALLS]")
    assert (mistral.begin, mistral.is_list, mistral.in_template) == ("[TOOL_CALLS]", True, True)
    assert mistral.visible == {tokenizer.id_of("[TOOL_CALLS]")}
    assert form_of(tiny.TEMPLATE)[0] == ToolForm()
    assert form_of("{{ raise_exception('no') }}")[0] == ToolForm()


TEXTS = [
    (HERMES, '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'),
    (LLAMA, '{"name": "weather", "parameters": {"city": "Rome"}}'),
    (LLAMA, '<|python_tag|>{"name": "weather", "parameters": {"city": "Rome"}}'),
    (MISTRAL, '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}}]'),
    (tiny.TEMPLATE, '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'),
    (HERMES, 'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n'),  # the end was a stop
]


@pytest.mark.parametrize(("template", "text"), TEXTS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_calls_are_read(template, text, size):
    form, _ = form_of(template)
    reader, parts = CallReader(form, ["weather"]), []
    for first in range(0, len(text), size):
        parts += reader.add(text[first : first + size])
    parts += reader.finish()
    assert [part for part in parts if isinstance(part, Call)] == [Call("weather", '{"city": "Rome"}')]
    words = "".join(part for part in parts if isinstance(part, str))
    assert words == ("I look.\n" if text.startswith("I") else "")


@pytest.mark.parametrize(
    ("template", "text", "expected"),
    [
        (HERMES, '<tool_call>\n{"name": "weather"', [Call("weather", "")]),
        (HERMES, 'I look.\n<tool_call>{"name": "weather", "arguments": {"city": "R', [Call("weather", '{"city": "R')]),
        (HERMES, '<tool_call>{"name": "weather", "arguments": {"a": "Rome"}\n', [Call("weather", '{"a": "Rome"}')]),
        (HERMES, '<tool_call>{"name": "weather", "arguments": {}}\n</too', [Call("weather", "{}")]),
        (MISTRAL, '[TOOL_CALLS][{"name": "time", "arguments": {}}, {"name": "weather", "arguments": {"a',
         [Call("time", "{}"), Call("weather", '{"a')]),
        (LLAMA, '{"name": "weather", "parameters": {"city": ', [Call("weather", '{"city": ')]),
        (HERMES, '<tool_call>{"name": "wea', []),
        (HERMES, '<tool_call>{"name": "other", "arguments": {', []),
        (LLAMA, 'Words {"name": "weather", "parameters": {', []),
    ],
)  # fmt: skip
def test_calls_that_are_cut(template, text, expected):
    """An answer that ends where no more tokens were allowed; without that it is words."""
    form, _ = form_of(template)
    for is_cut, calls in ((True, expected), (False, [])):
        reader = CallReader(form, ["weather", "time"])
        parts = reader.add(text) + reader.finish(is_cut)
        assert [part for part in parts if isinstance(part, Call)] == calls
        assert reader.calls == len(calls)
        words = "".join(part for part in parts if isinstance(part, str))
        assert words == (text if not calls else "I look.\n" if text.startswith("I") else "")


def test_two_calls_and_words_between():
    calls = ['{"name": "time", "arguments": {}}', '{"name": "weather", "arguments": {"a": [1]}}']
    text = "\n".join(f"<tool_call>{call}</tool_call>" for call in calls)
    reader = CallReader(ToolForm(), ["weather", "time"])
    assert reader.add(text) + reader.finish() == [Call("time", "{}"), Call("weather", '{"a": [1]}')]
    assert reader.calls == 2


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (HERMES, "a < b and <tool_ is no tag"),
        (HERMES, "<tool_call>not JSON</tool_call> and more"),
        (HERMES, '<tool_call>{"name": "other", "arguments": {}}</tool_call>'),
        (HERMES, '<tool_call>{"name": "weather", "arguments": 1}</tool_call>'),
        (HERMES, '<tool_call>{"name": "wea'),
        (LLAMA, '{"name": "weather"'),
        (LLAMA, 'Words {"name": "weather", "parameters": {}}'),
        (LLAMA, '{"city": "Rome"}'),
        (HERMES, "<tool_call>" + "[" * 5000),
        (HERMES, ""),
    ],
)
def test_words_are_no_calls(template, text):
    """Not a letter is lost."""
    form, _ = form_of(template)
    for size in (1, 1000):
        reader, parts = CallReader(form, ["weather"]), []
        for first in range(0, len(text), size):
            parts += reader.add(text[first : first + size])
        parts += reader.finish()
        assert "".join(parts) == text


def test_conversations_for_templates_without_tools():
    called = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "content": "18 degrees"},
    ]
    told, tools = ToolForm().conversation(messages, [WEATHER])
    assert tools is None
    assert told[0]["content"].startswith("Be short.\n\n")
    assert json.dumps(WEATHER["function"]) in told[0]["content"]
    (call,) = CallReader(ToolForm(), ["weather"]).add(told[1]["content"])
    assert call == Call("weather", '{"city": "Rome"}')
    assert (told[2]["role"], "18 degrees" in told[2]["content"]) == ("user", True)
    in_template = ToolForm(in_template=True)
    assert in_template.conversation(messages, [WEATHER]) == (messages, [WEATHER])


def drawn(form, tokenizer, tools):
    """The call that each of six texts is which a grammar allows, chosen token by token at random."""
    pytest.importorskip("llguidance")
    import numpy as np  # noqa: PLC0415

    from ms_ascend_ops.llm.constraint import Grammars  # noqa: PLC0415

    end = tokenizer.id_of("<|im_end|>")
    grammars = Grammars(tokenizer, tokenizer.vocabulary, [end])
    for seed, constraint in enumerate(grammars.open(form.grammar(tools, None), 6)):
        rng, ids = np.random.default_rng(seed), []
        while len(allowed := constraint.allowed()) and (token := int(rng.choice(allowed))) != end:
            ids.append(token)
            constraint.advance(token)
        stream = TextStream(tokenizer, [end], form.visible)
        reader = CallReader(form, [tool["function"]["name"] for tool in tools])
        (call,) = [*reader.add("".join(map(stream.add, ids)) + stream.finish()), *reader.finish()]
        yield call
    grammars.close()


@pytest.mark.parametrize(
    ("template", "more"), [(HERMES, ()), (LLAMA, ()), (MISTRAL, ("[TOOL_CALLS]",)), (tiny.TEMPLATE, ())]
)
def test_what_the_grammar_writes_is_read(template, more):
    """Any text that the grammar of a forced call allows is a call; each tool occurs."""
    form, tokenizer = form_of(template, *more)
    time = {**TIME, "function": {**TIME["function"], "parameters": {"enum": [{}]}}}
    calls = list(drawn(form, tokenizer, [WEATHER, time]))
    assert {call.name for call in calls} == {"weather", "time"}
    cities = [json.loads(call.arguments)["city"] for call in calls if call.name == "weather"]
    assert set(cities) <= {"Rome", "Oslo"}
    assert "time" not in json.dumps(form.grammar([WEATHER, TIME], "weather"))


def test_tools_whose_definitions_have_the_same_name():
    """Each call has the arguments that its own tool defines."""

    def tool(name, value):
        parameters = {
            "type": "object", "properties": {"one": {"$ref": "#/$defs/Item"}}, "required": ["one"],
            "additionalProperties": False, "$defs": {"Item": {"$ref": "#/$defs/Leaf"}, "Leaf": {"enum": [value]}},
        }  # fmt: skip
        return {"type": "function", "function": {"name": name, "parameters": parameters}}

    calls = list(drawn(*form_of(HERMES), [tool("left", "a"), tool("right", "b")]))
    assert {(call.name, json.loads(call.arguments)["one"]) for call in calls} == {("left", "a"), ("right", "b")}
