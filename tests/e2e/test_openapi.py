"""docs/openapi.yaml against a running server: requests that schemathesis makes up, valid ones and broken ones. No 5xx, no hang, and
every answer is as documented. And the other way round: every route that the server has is in the document."""
import os
import pathlib
import re

import pytest

from serving import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "openapi.yaml"
METHODS = {"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"}
SECONDS = 30  # a request that takes longer hangs
EXAMPLES = int(os.environ.get("OPENAPI_EXAMPLES", "20"))
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
# Other names of the same endpoint, and the page.
ALIASES = {"/models", "/responses", "/chat/completions", "/completions", "/embeddings", "/v1/health", "/", "/index.html"}

# Schemas of answers, which are taken as they are.
ANSWERS = {"Error", "Event", "Model", "Usage", "Timings", "TokenProb", "ChatCompletion", "TextCompletion", "Embeddings", "LlamaCompletion", "Ids",
           "ToolCall", "Response", "Message", "AnthropicError"}

schemathesis = pytest.importorskip("schemathesis")
# Whether a request can be answered depends on the model (its context, its tokens), and numbers like 5.0 pass for integers.
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance  # noqa: E402
hypothesis = pytest.importorskip("hypothesis")
yaml = pytest.importorskip("yaml")


def bounded(node):
    """Requests of a size that a test can afford: the document has no such limits."""
    if isinstance(node, list):
        return [bounded(x) for x in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    more = {"maxLength": 200} if "string" in kinds else {}
    more |= {"maxItems": 5} if "array" in kinds else {}
    more |= {"maxProperties": 12} if "object" in kinds and "properties" not in node else {}
    few = {"n", "best_of"} & set(node.get("properties", {}))
    node = {**more, **{k: bounded(v) for k, v in node.items()}}
    for name in few:
        node["properties"][name]["maximum"] = 4
    return node


def load():
    doc = yaml.safe_load(DOCUMENT.read_text())
    for op in (op for ops in doc["paths"].values() for op in ops.values() if "requestBody" in op):
        op["requestBody"] = bounded(op["requestBody"])
    schemas = doc["components"]["schemas"]
    schemas |= {name: bounded(x) for name, x in schemas.items() if name not in ANSWERS}
    schemas["Id"]["maximum"] = 270
    return doc


schema = schemathesis.openapi.from_dict(load())


@pytest.fixture(scope="module")
def server(ie, tiny, tmp_path_factory):
    template = tmp_path_factory.mktemp("template") / "chat.jinja"
    template.write_text(TEMPLATE)
    s = Server(ie, tiny("f32"), "--parallel", 4, "--ctx", 96, "--quiet", "--chat-template-file", template)
    yield s
    s.stop()


@schema.parametrize()
@hypothesis.settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                     suppress_health_check=list(hypothesis.HealthCheck))
def test_requests(case, server):
    where = {"base_url": f"http://127.0.0.1:{server.port}", "timeout": SECONDS}
    if case.method not in METHODS:  # one that HTTP itself does not know
        assert case.call(**where).status_code == 501
        return
    case.call_and_validate(**where, excluded_checks=[negative_data_rejection, positive_data_acceptance])


def test_routes_are_documented():
    rows = [m for f in (ROOT / "src" / "serve").glob("*.c") for m in re.findall(r'^\s*\{"(GET|POST)", ("[^"]+"|[A-Z]+),', f.read_text(), re.M)]
    known = {re.sub(r"\{.*", "", p) for p in schema.raw_schema["paths"]}
    paths = {p.strip('"') for _, p in rows}
    assert len(paths) > 15
    assert not {p for p in paths if p.startswith("/")} - known - ALIASES
