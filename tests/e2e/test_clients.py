"""ie-serve through the clients that people use: the packages openai and anthropic, on a small chat model and on one that thinks."""
import json

import anthropic
import jsonschema
import openai
import pydantic
import pytest
from serving import QWEN35, Server

WEATHER = {"type": "object", "properties": {"place": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
                                            "unit": {"enum": ["C", "F"]}}, "required": ["place", "days", "unit"], "additionalProperties": False}
CLOCK = {"type": "object", "properties": {"zone": {"type": "string", "maxLength": 8}}, "required": ["zone"], "additionalProperties": False}
SCHEMAS = {"get_weather": WEATHER, "get_time": CLOCK}
TOOLS = [{"type": "function", "function": {"name": n, "description": f"Says {n}", "parameters": s, "strict": True}} for n, s in SCHEMAS.items()]
FLAT = [{"type": "function", **t["function"]} for t in TOOLS]
BLOCKS = [{"name": n, "description": "", "input_schema": s} for n, s in SCHEMAS.items()]
ASK = [{"role": "user", "content": "What is the weather in Rome?"}]
ZERO = {"temperature": 0}

# A template in the manner of Qwen3.5: calls as XML, thinking opened by the prompt.
XML = """{%- if tools %}<|im_start|>system
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
<tool_call>
<function=name>
<parameter=key>
value
</parameter>
</function>
</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' + m.content }}
{%- for c in m.tool_calls or [] %}
{{- '<tool_call>\\n<function=' + c.function.name + '>\\n' }}
{%- for k, v in c.function.arguments | items %}{{ '<parameter=' + k + '>\\n' + (v | string) + '\\n</parameter>\\n' }}{% endfor %}
{{- '</function>\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n<think>\\n' + ('' if enable_thinking is undefined or enable_thinking else '\\n</think>\\n\\n') }}
{%- endif %}"""


class Served:
    def __init__(self, ie, model, thinks, *args):
        self.server, self.thinks = Server(ie, model, "--parallel", 4, "--ctx", 2048, "--quiet", *args), thinks
        url = f"http://127.0.0.1:{self.server.port}"
        self.openai = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=120)
        self.anthropic = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=120)

    def chat(self, **kw):
        return self.openai.chat.completions.create(**{"model": "m", "messages": ASK, "temperature": 0, "max_tokens": 200, **kw})

    def messages(self, **kw):
        return self.anthropic.messages.create(**{"model": "m", "messages": ASK, "max_tokens": 200, "extra_body": ZERO, **kw})


@pytest.fixture(scope="module", params=["smollm2", "qwen35", "qwen35-xml"])
def served(request, ie, tmp_path_factory):
    args = []
    if request.param == "smollm2":
        model = request.getfixturevalue("smollm2")
    else:
        model = QWEN35
        if not model.exists():
            pytest.skip(f"{model} is missing")
        if request.param == "qwen35-xml":
            path = tmp_path_factory.mktemp("template") / "xml.jinja"
            path.write_text(XML)
            args = ["--chat-template-file", path]
    s = Served(ie, model, request.param != "smollm2", *args)
    yield s
    s.server.stop()


def check_call(name, args):
    jsonschema.validate(args, SCHEMAS[name])


# ---- OpenAI: chat ------------------------------------------------------------------------------------------------------------------


def gather(chunks):
    """A stream's deltas put together as one message."""
    out = {"content": "", "reasoning": "", "calls": [], "finish": None, "pieces": 0}
    for chunk in chunks:
        for choice in chunk.choices:
            delta = choice.delta
            out["content"] += delta.content or ""
            out["reasoning"] += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or []:
                if call.index == len(out["calls"]):
                    assert call.id and call.type == "function" and call.function.name
                    out["calls"].append([call.function.name, ""])
                out["calls"][call.index][1] += call.function.arguments or ""
                out["pieces"] += 1
            out["finish"] = choice.finish_reason or out["finish"]
    return out


def whole(answer):
    m = answer.choices[0].message
    return {"content": m.content or "", "reasoning": getattr(m, "reasoning_content", None) or "", "finish": answer.choices[0].finish_reason,
            "calls": [[c.function.name, c.function.arguments] for c in m.tool_calls or []]}


@pytest.mark.parametrize("options", [{}, {"tools": TOOLS}, {"tools": TOOLS, "tool_choice": "none"},
                                     {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
                                     {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
                                     {"tools": TOOLS, "tool_choice": "required", "max_tokens": 150}],
                         ids=["plain", "auto", "none", "required", "named", "several"])
def test_chat_stream_is_the_whole_answer(served, options):
    options = {"max_tokens": 120, **options}
    want = whole(served.chat(**options))
    got = gather(served.chat(stream=True, **options))
    pieces = got.pop("pieces")
    assert got == want
    assert served.thinks == bool(want["reasoning"])
    for name, text in want["calls"]:
        check_call(name, json.loads(text))
    if "parallel_tool_calls" in options or isinstance(options.get("tool_choice"), dict):
        assert len(want["calls"]) == 1 and want["finish"] == "tool_calls" and pieces > 3 and not want["content"]
    if isinstance(options.get("tool_choice"), dict):
        assert want["calls"][0][0] == "get_weather"
    if options.get("tool_choice", "none") == "none":
        assert not want["calls"] and want["content"]


def test_calls_at_any_temperature(served):
    for seed in range(6):
        got = whole(served.chat(tools=TOOLS, tool_choice="required", parallel_tool_calls=False, temperature=1, seed=seed, max_tokens=60 + 20 * seed))
        (name, args), = got["calls"]
        check_call(name, json.loads(args))


def test_conversation_with_calls(served):
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"place": "Rome", "days": 2, "unit": "C"}'}}
    messages = ASK + [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": "sunny-27"}]
    text = served.server.ok("/apply-template", {"messages": messages, "tools": TOOLS})["prompt"]
    assert "sunny-27" in text and "get_time" in text and text.count("Rome") >= 2 and text.index("get_time") < text.index("sunny-27")
    answer = served.chat(messages=messages, tools=TOOLS, tool_choice="none", max_tokens=40)
    assert answer.choices[0].finish_reason in ("stop", "length") and answer.usage.prompt_tokens > 100


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=0, le=150)


def test_json_schema(served):
    answer = served.openai.chat.completions.parse(model="m", messages=[{"role": "user", "content": "A person."}], temperature=0, max_tokens=120,
                                                  response_format=Person)
    assert isinstance(answer.choices[0].message.parsed, Person)
    assert served.thinks == bool(getattr(answer.choices[0].message, "reasoning_content", None))
    both = whole(served.chat(tools=TOOLS, response_format={"type": "json_object"}, max_tokens=150))  # JSON or a call, never free text
    assert both["calls"] or isinstance(json.loads(both["content"]), dict)


def test_thinking_off(served):
    got = whole(served.chat(max_tokens=30, extra_body={"chat_template_kwargs": {"enable_thinking": False}}))
    assert not got["reasoning"] and got["content"]
    assert whole(served.chat(max_tokens=30, reasoning_effort="none")) == got


def test_logprobs_choices_usage(served):
    answer = served.chat(n=2, logprobs=True, top_logprobs=3, temperature=1, seed=5, max_tokens=12)
    assert len(answer.choices) == 2
    for choice in answer.choices:
        entries = choice.logprobs.content
        assert len(entries) >= 11 and all(len(e.top_logprobs) == 3 and e.logprob <= 0 for e in entries)
    chunks = list(served.chat(stream=True, logprobs=True, max_tokens=12, stream_options={"include_usage": True}))
    entries = [e for c in chunks if c.choices and c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert len(entries) in (11, 12)
    assert chunks[-1].usage.completion_tokens == 12 and not chunks[-1].choices


def test_other_openai_endpoints(served):
    assert served.openai.models.list().data[0].id
    text = served.openai.completions.create(model="m", prompt="Once upon a time", max_tokens=8, temperature=0).choices[0].text
    assert text == "".join(c.choices[0].text for c in served.openai.completions.create(model="m", prompt="Once upon a time", max_tokens=8,
                                                                                       temperature=0, stream=True))
    a, b = served.openai.embeddings.create(model="m", input=["one text", "another"]).data
    assert len(a.embedding) == len(b.embedding) > 100 and a.embedding != b.embedding


@pytest.mark.parametrize("options,word", [
    ({"tools": [{"type": "web_search"}]}, "web_search"), ({"tools": TOOLS + TOOLS}, "get_weather"), ({"tool_choice": "required"}, "tools"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "other"}}}, "other"),
    ({"tools": TOOLS, "tool_choice": "required", "max_tokens": 3}, "tokens"),
    ({"tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "properties": {"a": {"not": {}}},
                                                                                            "required": ["a"]}}}], "tool_choice": "required"}, "not"),
])
def test_refused(served, options, word):
    with pytest.raises(openai.BadRequestError) as e:
        served.chat(**options)
    assert word in str(e.value)


def test_loose_schemas(served):
    """Without "strict" a schema that cannot be guaranteed does not stop a request."""
    odd = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}
    (name, args), = whole(served.chat(tools=[odd], tool_choice="required", parallel_tool_calls=False, max_tokens=80))["calls"]
    assert name == "f" and isinstance(json.loads(args), dict)


# ---- OpenAI: responses -----------------------------------------------------------------------------------------------------------------


def events(stream):
    """Checks the order of a response's events; the last one's response and the texts put together from deltas."""
    texts, open_item, last, number = {}, None, None, 0
    for e in stream:
        assert e.sequence_number == number
        number += 1
        if e.type == "response.output_item.added":
            assert open_item is None
            open_item = e.output_index
            texts[open_item] = ""
        elif e.type.endswith(".delta"):
            assert e.output_index == open_item
            texts[open_item] += e.delta
        elif e.type == "response.output_item.done":
            assert e.output_index == open_item
            open_item = None
        last = e
    return last, texts


def item_text(item):
    return item.arguments if item.type == "function_call" else item.content[0].text


@pytest.mark.parametrize("options", [{"max_output_tokens": 40}, {"tools": FLAT, "tool_choice": {"type": "function", "name": "get_time"}},
                                     {"text": {"format": {"type": "json_schema", "name": "time", "schema": CLOCK}}}], ids=["text", "call", "schema"])
def test_responses(served, options):
    options = {"model": "m", "input": "Say something.", "instructions": "Be brief.", "temperature": 0, "max_output_tokens": 200, **options}
    r = served.openai.responses.create(**options)
    last, texts = events(served.openai.responses.create(stream=True, **options))
    assert last.type == f"response.{r.status}"
    assert [i.type for i in last.response.output] == [i.type for i in r.output]
    assert [item_text(i) for i in r.output] == [item_text(i) for i in last.response.output] == [texts[k] for k in sorted(texts)]
    assert (r.output[0].type == "reasoning") == served.thinks and (r.usage.output_tokens_details.reasoning_tokens > 0) == served.thinks
    if "tools" in options:
        assert r.output[-1].type == "function_call" and r.output[-1].name == "get_time" and r.status == "completed"
        check_call("get_time", json.loads(r.output[-1].arguments))
        more = [{"role": "user", "content": "Say something."}, *(i.model_dump() for i in r.output),
                {"type": "function_call_output", "call_id": r.output[-1].call_id, "output": "noon"}]
        again = served.openai.responses.create(**{**options, "input": more, "tool_choice": "none", "max_output_tokens": 60})
        assert again.usage.input_tokens > r.usage.input_tokens and not any(i.type == "function_call" for i in again.output)
    if "text" in options:
        check_call("get_time", json.loads(r.output_text))


def test_responses_refused(served):
    for options, word in [({"previous_response_id": "resp_1"}, "stores nothing"), ({"input": []}, "input"),
                          ({"input": [{"type": "item_reference", "id": "x"}]}, "item_reference")]:
        with pytest.raises(openai.BadRequestError, match=word):
            served.openai.responses.create(**{"model": "m", "input": "x", **options})


# ---- Anthropic ---------------------------------------------------------------------------------------------------------------------------


def block_list(content):
    return [(b.type, getattr(b, "text", None) or getattr(b, "thinking", None) or getattr(b, "input", None)) for b in content]


@pytest.mark.parametrize("options", [{"max_tokens": 40}, {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 200},
                                     {"tools": BLOCKS, "tool_choice": {"type": "tool", "name": "get_weather"}},
                                     {"tools": BLOCKS, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}],
                         ids=["text", "thinking", "tool", "any"])
def test_messages(served, options):
    m = served.messages(system="Be brief.", **options)
    with served.anthropic.messages.stream(**{"model": "m", "messages": ASK, "max_tokens": 200, "system": "Be brief.", "extra_body": ZERO, **options}) as stream:
        kinds = [e.type for e in stream]
        final = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == len(m.content)
    assert block_list(final.content) == block_list(m.content)
    assert (final.stop_reason, final.usage.output_tokens) == (m.stop_reason, m.usage.output_tokens)
    assert any(b.type == "thinking" for b in m.content) == (served.thinks and "thinking" in options)
    if "tools" in options:
        use, = m.content
        assert m.stop_reason == "tool_use" and use.type == "tool_use" and use.id
        check_call(use.name, use.input)
        more = ASK + [{"role": "assistant", "content": [use.model_dump(include={"type", "id", "name", "input"})]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sunny"}]},
                                                   {"type": "text", "text": "And now?"}]}]
        again = served.messages(messages=more, tools=BLOCKS, tool_choice={"type": "none"}, max_tokens=30)
        assert again.stop_reason in ("end_turn", "max_tokens") and all(b.type == "text" for b in again.content)
        count = served.anthropic.messages.count_tokens(model="m", messages=more, tools=BLOCKS).input_tokens
        assert count == again.usage.input_tokens + again.usage.cache_read_input_tokens


@pytest.mark.parametrize("kind", ["enabled", "adaptive", "disabled"])
def test_messages_kinds_of_thinking(served, kind):
    more = {"budget_tokens": 1024} if kind == "enabled" else {}
    m = served.messages(max_tokens=200, thinking={"type": kind, **more})
    assert any(b.type == "thinking" for b in m.content) == (served.thinks and kind != "disabled")


@pytest.mark.parametrize("thinking,word", [({"type": "sometimes"}, "thinking.type"), ({}, "thinking.type"), ({"type": 5}, "thinking.type"), ("enabled", "'thinking'")])
def test_messages_thinking_refused(served, thinking, word):
    with pytest.raises(anthropic.BadRequestError) as e:
        served.messages(extra_body={"thinking": thinking})
    assert word in e.value.body["error"]["message"]


def test_messages_stop_sequence(served):
    text = served.messages(max_tokens=40).content[0].text
    stop = text[8:12]
    m = served.messages(max_tokens=40, stop_sequences=["never appears", stop])
    assert m.stop_reason == "stop_sequence" and m.stop_sequence == stop
    assert "".join(b.text for b in m.content) == text[:text.index(stop)]


def test_messages_refused(served):
    for options, word in [({"messages": []}, "messages"), ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search"),
                          ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]}, "image")]:
        with pytest.raises(anthropic.BadRequestError) as e:
            served.messages(**options)
        assert e.value.body["type"] == "error" and e.value.body["error"]["type"] == "invalid_request_error" and word in e.value.body["error"]["message"]


def test_keys(ie, tiny):
    s = Server(ie, tiny("q4_0"), "--api-key", "secret", "--quiet")
    try:
        url = f"http://127.0.0.1:{s.port}"
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=url + "/v1", api_key="wrong", max_retries=0).models.list()
        with pytest.raises(anthropic.AuthenticationError) as e:
            anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0).messages.create(model="m", max_tokens=1, messages=ASK)
        assert e.value.body["error"]["type"] == "authentication_error"
        assert openai.OpenAI(base_url=url + "/v1", api_key="secret").models.list().data
        assert anthropic.Anthropic(base_url=url, api_key="secret").models.list() is not None
    finally:
        s.stop()
