"""Every member of every request with each kind of JSON value that it must not have: a 400 that names it."""
import copy
import pathlib
import re

import pytest

import gguf_write
from serving import Server
from test_serve_api import fim_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
VALUES = {"bool": [True, False], "int": [7], "real": [1.5], "text": ["zzz"], "list": [[7], [None]], "object": [{"zzz": 7}]}

BOOL, INT, NUMBER, TEXT, LIST, OBJECT = {"bool"}, {"int"}, {"int", "real"}, {"text"}, {"list"}, {"object"}
# A word of a given few: no kind is right that is not one of them. Lists and objects, too, where their contents are checked.
NONE = set()

SAMPLING = {
    "temperature": NUMBER, "top_p": NUMBER, "min_p": NUMBER, "top_k": INT, "repeat_penalty": NUMBER, "repetition_penalty": NUMBER,
    "presence_penalty": NUMBER, "frequency_penalty": NUMBER, "repeat_last_n": INT, "seed": INT, "stop": TEXT, "stop.0": TEXT, "logit_bias": NONE,
    "n_predict": INT, "max_tokens": INT, "max_completion_tokens": INT, "cache_prompt": BOOL, "ignore_eos": BOOL, "return_progress": BOOL,
    "stream": BOOL, "grammar": TEXT, "json_schema": OBJECT | BOOL, "response_format": NONE, "response_format.type": NONE,
}
NOTED = {"model": TEXT, "user": TEXT, "metadata": OBJECT, "store": BOOL, "service_tier": TEXT, "safety_identifier": TEXT, "prompt_cache_key": TEXT,
         "prompt_cache_retention": TEXT, "stream_options": OBJECT, "stream_options.include_obfuscation": BOOL}
USAGE = {"stream_options.include_usage": BOOL}
SAME = ["temperature", "top_p", "top_k", "min_p", "seed", "cache_prompt", "presence_penalty", "frequency_penalty", "repeat_penalty", "stream"]
TOOLS = {"tools": NONE, "tools.0": NONE, "tools.0.type": NONE, "tools.0.function": OBJECT, "tools.0.function.name": TEXT, "tools.0.function.description": TEXT,
         "tools.0.function.strict": BOOL, "tools.0.function.parameters": OBJECT, "tool_choice": NONE, "parallel_tool_calls": BOOL}
TEMPLATED = {"messages": NONE, "messages.0": NONE, "messages.0.role": TEXT, "messages.0.content": TEXT, "messages.0.content.0": NONE,
             "messages.0.content.0.type": NONE, "messages.0.content.0.text": TEXT, "messages.0.tool_calls": NONE, "chat_template_kwargs": OBJECT, "reasoning_effort": NONE, "documents": LIST, "functions": NONE,
             "function_call": NONE}
CHAT = {**SAMPLING, **NOTED, **USAGE, **TOOLS, **TEMPLATED, "n": INT, "logprobs": BOOL, "top_logprobs": INT, "modalities": NONE, "verbosity": NONE,
        "prediction": OBJECT, "web_search_options": NONE, "audio": NONE}
COMPLETION = {**SAMPLING, **NOTED, **USAGE, "prompt": TEXT | LIST, "prompt.0": TEXT | INT | LIST, "suffix": TEXT, "n": INT, "best_of": NONE, "logprobs": INT,
              "echo": BOOL}
EMBEDDING = {**NOTED, "input": TEXT | LIST, "input.0": TEXT | INT | LIST, "encoding_format": NONE, "dimensions": NONE | INT, "pooling": NONE}
LLAMA = {**SAMPLING, "n_probs": INT, "post_sampling_probs": BOOL}
RESPONSE = {
    **{k: SAMPLING[k] for k in SAME}, **NOTED, "input": TEXT, "input.0": NONE, "input.0.type": NONE, "input.0.role": TEXT, "input.0.content": TEXT,
    "input.0.content.0": NONE, "instructions": TEXT, "max_output_tokens": INT, "previous_response_id": NONE, "conversation": NONE, "prompt": NONE,
    "background": BOOL, "truncation": NONE, "include": NONE, "max_tool_calls": INT, "reasoning": OBJECT, "reasoning.effort": NONE,
    "reasoning.summary": NONE, "reasoning.generate_summary": NONE, "text": OBJECT, "text.verbosity": NONE, "text.format": NONE, "text.format.type": NONE,
    "tools": NONE, "tools.0": OBJECT, "tools.0.type": NONE, "tools.0.name": TEXT, "tools.0.description": TEXT, "tools.0.strict": BOOL,
    "tools.0.parameters": OBJECT, "tool_choice": NONE, "parallel_tool_calls": BOOL, "logit_bias": NONE, "stop": TEXT, "top_logprobs": INT,
}
MESSAGE = {
    **{k: SAMPLING[k] for k in SAME}, "model": TEXT, "max_tokens": INT, "system": TEXT, "system.0": NONE, "system.0.text": TEXT, "messages": NONE,
    "messages.0": OBJECT, "messages.0.role": NONE, "messages.0.content": TEXT, "messages.0.content.0": NONE, "messages.0.content.0.type": NONE,
    "messages.0.content.0.text": TEXT, "stop_sequences": NONE, "metadata": OBJECT, "metadata.user_id": TEXT, "service_tier": NONE, "thinking": NONE, "thinking.type": NONE,
    "thinking.budget_tokens": INT, "tools": NONE, "tools.0": NONE, "tools.0.type": NONE, "tools.0.name": TEXT, "tools.0.description": TEXT,
    "tools.0.input_schema": OBJECT, "tool_choice": NONE, "tool_choice.type": NONE, "tool_choice.disable_parallel_tool_use": BOOL,
    "output_config": OBJECT, "output_config.effort": NONE, "output_config.format": NONE, "output_config.format.type": NONE, "output_format": NONE,
    "output_format.type": NONE, "container": TEXT, "mcp_servers": NONE, "context_management": OBJECT,
}
BASE = {"max_tokens": 1, "response_format": {"type": "text"}}
TOOL = [{"type": "function", "function": {"name": "f", "description": "d", "strict": False, "parameters": {"type": "object"}}}]
FLAT = [{"type": "function", "name": "f", "description": "d", "strict": False, "parameters": {"type": "object"}}]
OWN = [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]
USER = [{"role": "user", "content": "a"}]
THINKING = {"type": "enabled", "budget_tokens": 1024}
TABLE = {
    "/v1/chat/completions": ({**BASE, "messages": USER, "tools": TOOL}, CHAT),
    "/v1/completions": ({**BASE, "prompt": "a"}, COMPLETION),
    "/v1/embeddings": ({"input": "a"}, EMBEDDING),
    "/v1/responses": ({"input": USER, "max_output_tokens": 1, "tools": FLAT, "reasoning": {}, "text": {}}, RESPONSE),
    "/v1/messages": ({"messages": USER, "max_tokens": 1, "tools": OWN, "thinking": THINKING, "tool_choice": {"type": "auto"}}, MESSAGE),
    "/v1/messages/count_tokens": ({"messages": USER, "max_tokens": 1, "tools": OWN, "thinking": THINKING, "tool_choice": {"type": "auto"}}, MESSAGE),
    "/completion": ({**BASE, "prompt": "a"}, {**LLAMA, "prompt": TEXT | LIST, "prompt.0": INT}),
    "/infill": ({**BASE, "input_prefix": "a", "input_suffix": "b"}, {**LLAMA, "input_prefix": TEXT, "input_suffix": TEXT, "prompt": TEXT, "input_extra": NONE,
                "input_extra.0": NONE, "input_extra.0.text": TEXT, "input_extra.0.filename": TEXT}),
    "/tokenize": ({"content": "a"}, {"content": TEXT, "add_special": BOOL, "parse_special": BOOL, "with_pieces": BOOL}),
    "/detokenize": ({"tokens": [1]}, {"tokens": LIST, "tokens.0": INT}),
    "/apply-template": ({"messages": USER, "tools": TOOL}, {k: v for k, v in {**TEMPLATED, **TOOLS}.items() if k != "parallel_tool_calls"}),
}


def paths(body, at):
    """The container of the member and its name or place; what is not there, or no container, is made one."""
    *way, last = [int(x) if x.isdigit() else x for x in at.split(".")]
    for x, following in zip(way, [*way[1:], last]):
        have = body[x] if isinstance(x, int) else body.get(x)
        if not isinstance(have, list if isinstance(following, int) else dict):
            body[x] = [None] if isinstance(following, int) else {"type": "text"}
        body = body[x]
    return body, last


@pytest.fixture(scope="module")
def server(ie, tmp_path_factory):
    folder = tmp_path_factory.mktemp("members")
    (folder / "chat.jinja").write_text(TEMPLATE)
    model = fim_model(gguf_write.Gguf(), folder / "fim.gguf", {"pre": 267, "suf": 268, "mid": 269})
    s = Server(ie, model, "--parallel", 1, "--ctx", 512, "--quiet", "--chat-template-file", folder / "chat.jinja")
    yield s
    s.stop()


@pytest.mark.parametrize("path", TABLE)
def test_wrong_kinds(server, path):
    base, members = TABLE[path]
    bad = []
    for at, right in members.items():
        for kind, values in VALUES.items():
            for value in values if kind not in right else []:
                body = copy.deepcopy(base)
                where, last = paths(body, at)
                where[last] = value
                status, answer = server.post(path, body)
                name = next(x for x in reversed(at.split(".")) if not x.isdigit())
                message = (answer.get("error") or {}).get("message", "")
                if status != 400 or name not in message:
                    bad.append((at, value, status, message))
    assert not bad, "\n".join(map(str, bad))


@pytest.mark.parametrize("path,more,message", [
    ("/v1/chat/completions", {"reasoning_effort": "zzz"}, "'reasoning_effort' must be one of none, minimal, low, medium, high, xhigh, max, not \"zzz\""),
    ("/v1/chat/completions", {"top_k": 1.5}, "'top_k' must be a whole number from -1 to 2147483647, not 1.5"),
    ("/v1/chat/completions", {"temperature": "h\u00f6t\n" * 20}, "'temperature' must be a number from 0 to 1e+06, not \"" + "h\u00f6t\\n" * 8 + "\"..."),
    ("/v1/chat/completions", {"stream": {"a": [1] * 1000}}, "'stream' must be true or false, not an object"),
    ("/v1/chat/completions", {"audio": {}}, "'audio' is not supported: answers are text"),
    ("/v1/responses", {"truncation": "middle"}, "'truncation' must be one of auto, disabled, not \"middle\""),
    ("/v1/responses", {"reasoning": {"effort": 5}}, "'reasoning.effort' must be one of none, minimal, low, medium, high, xhigh, max, not 5"),
    ("/v1/responses", {"input": [{"type": "reasoning"}]}, "'input' holds no message and no result of a call"),
    ("/v1/messages", {"thinking": {"type": "enabled", "budget_tokens": 0}}, "'thinking.budget_tokens' must be a whole number from 1, not 0"),
    ("/v1/messages", {"stop_sequences": ["a"] * 100}, "'stop_sequences' are 100, allowed are at most 64"),
    ("/v1/messages", {"mcp_servers": [{}]}, "'mcp_servers' is not supported: give tools of your own"),
    ("/v1/messages", {"output_config": {"format": {}}}, "'output_config.format' has no type"),
    ("/v1/messages", {"output_config": {"effort": "low"}, "output_format": {}}, "'output_format' has no type"),
    # what is wrong with a format, by the name that the client gave it
    ("/v1/chat/completions", {"response_format": {"type": "json_schema"}}, "'response_format.json_schema.schema' is missing"),
    ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}}, "'response_format.json_schema.schema' must be a JSON Schema: an object, true or false, not 5"),
    ("/v1/chat/completions", {"response_format": {"type": "json_schema", "schema": 5}}, "'response_format.schema' must be a JSON Schema: an object, true or false, not 5"),
    ("/v1/chat/completions", {"response_format": {"schema": {}}}, "'response_format.type' is missing"),
    ("/v1/responses", {"text": {"format": {"schema": {}}}}, "'text.format.type' is missing"),
    ("/v1/responses", {"text": {"format": {"type": "json_schema"}}}, "'text.format.schema' is missing"),
    ("/v1/responses", {"text": {"format": {"type": "json_schema", "schema": 5}}}, "'text.format.schema' must be a JSON Schema: an object, true or false, not 5"),
    ("/v1/messages", {"output_config": {"format": {"type": "json_schema"}}}, "'output_config.format.schema' is missing"),
    ("/v1/messages", {"output_config": {"format": {"type": "json_schema", "schema": []}}}, "'output_config.format.schema' must be a JSON Schema: an object, true or false, not an array"),
    ("/v1/messages", {"output_format": {"type": "json_object", "schema": 5}}, "'output_format.schema' must be a JSON Schema: an object, true or false, not 5"),
    ("/v1/messages", {"messages": [{"role": "user", "content": []}]}, "a message's content must not be empty (role 'user')"),
    ("/v1/messages", {"messages": [*USER, {"role": "assistant", "content": ""}, *USER]}, "a message's content must not be empty (role 'assistant')"),
])
def test_what_is_said(server, path, more, message):
    status, answer = server.post(path, {**TABLE[path][0], **more})
    assert (status, answer["error"]["message"]) == (400, message)


def test_null_counts_as_absent(server):
    for path, names in (("/v1/chat/completions", NOTED | TEMPLATED), ("/v1/responses", NOTED | RESPONSE), ("/v1/messages", MESSAGE)):
        base = TABLE[path][0]
        nulls = {k: None for k in names if "." not in k and k not in base and k != "stream"}
        if "tools" not in nulls:
            nulls |= {"tools": None, "tool_choice": None}
        assert server.post(path, {**base, **nulls})[0] == 200


def test_an_empty_answer_to_go_on_with(server):
    for content in ("", []):
        assert server.post("/v1/messages", {"max_tokens": 1, "messages": [*USER, {"role": "assistant", "content": content}]})[0] == 200


def test_the_table_is_whole():
    """What the server's code reads of requests or checks is in the table above."""
    code = "".join(f.read_text() for f in (ROOT / "src" / "serve").glob("*.c") if not f.name.startswith("tools_"))  # those read schemas
    names = set(re.findall(r'serve_get_\w+\([^"()]*(?:\([^()]*\)[^"()]*)*"(\w+)"', code)) | {n.split(".")[-1] for n in re.findall(r'\{"([\w.]+)", SERVE_[A-Z]+,', code)}
    names |= set(re.findall(r'\{"(\w+)", offsetof\(ie_sampling', code))
    names |= set(re.findall(r'json_object_get\((?:o|body|c->body), "(\w+)"\)', code))
    tested = {x for _, members in TABLE.values() for at in members for x in at.split(".")}
    assert len(names) > 80 and not names - tested, names - tested
