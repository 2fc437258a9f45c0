"""Constrained output: what a model samples under a random schema validates, cut short or not; grammars accept what another
implementation accepts; refusals."""
import json
import random
import resource
import subprocess

import pytest

import gbnf_slow
from random_schema import Maker

jsonschema = pytest.importorskip("jsonschema")

N_SCHEMAS = 200


def sample(ie, model, temp, jobs, timeout=300):
    r = subprocess.run([ie.path("tests/grammar_sample"), str(model), str(temp)], input="".join(json.dumps(j) + "\n" for j in jobs), capture_output=True,
                       text=True, timeout=timeout, env=ie.env)
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]


def validate_all(schemas, jobs, answers):
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    cut = 0
    for schema, job, a in zip(schemas, jobs, answers, strict=True):
        assert "error" not in a, (a, schema)
        value = json.loads(a["text"])
        jsonschema.Draft202012Validator.check_schema(schema)
        errors = [e.message for e in jsonschema.Draft202012Validator(schema, format_checker=checker).iter_errors(value)]
        assert not errors, (errors, a, schema)
        assert a["tokens"] <= job["extra"] + a["shortest"]
        cut += a["tokens"] == job["extra"] + a["shortest"] and job["extra"] > 0
    return cut


@pytest.mark.parametrize("which", ["tiny", "smollm2"])
def test_random_schemas(ie, tiny, request, which):
    model = tiny("q8_0") if which == "tiny" else request.getfixturevalue("smollm2")
    schemas = [Maker(seed).schema() for seed in range(N_SCHEMAS)]
    rnd = random.Random(which)
    jobs = [{"schema": s, "seed": i, "extra": rnd.choice([0, 1, 3, 10, 30, 100])} for i, s in enumerate(schemas)]
    answers = sample(ie, model, 1.0, jobs)
    cut = validate_all(schemas, jobs, answers)
    print(f"{which}: {len(answers)} outputs valid, {cut} of them ended by the budget, {sum(a['tokens'] for a in answers)} tokens")
    assert cut > N_SCHEMAS // 10


# ---- GBNF against another matcher ----------------------------------------------------------------------------------------

GRAMMARS = {
    "chess": r'''
# moves in algebraic notation
root ::= (num " " move " " move "\n"){1,3}
num ::= [1-9] [0-9]? "."
move ::= (pawn | nonpawn | castle) [+#]?
nonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
''',
    "arithmetic": r'''
root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*
''',
    "palindromes": 'root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""',
    "ambiguous": 'root ::= s\ns ::= "a" s? s? | "ab" | "b"?',
    "nullable": 'root ::= (("a"* "b"?)* "c"?){2,5}\n',
    "counts": 'root ::= [ab]{3} | "c"{2,} | ("d" | "dd"){1,7} | "e"{0,13} "f"',
    "unicode": 'root ::= [а-яё]+ | [^a-z]{2} | "\\u00e9\\x41\\U0001F600" | . "!" [\\]\\-^]',
    "lists": 'root ::= ( "- " [^\\n]+ "\\n" )+',
    "balanced": 'root ::= ("(" root ")" | "[" root "]")*',
    "empty": 'root ::= |\n  "x" # nothing, or x\n',
}


def variants(rnd, g, alphabet, n):
    """Random texts: some over the grammar's alphabet, some that a walk through the grammar gives, some of these damaged."""
    def walk(e, depth):
        kind = e[0]
        if kind == "text":
            return e[1]
        if kind == "class":
            ok = [c for c in alphabet if any(a <= c <= b for a, b in e[1]) != e[2]]
            return rnd.choice(ok) if ok else "?"
        if kind == "rule":
            return walk(g.rules[e[1]], depth + 1)
        if kind == "alt":
            return walk(rnd.choice(e[1]) if depth < 12 else min(e[1], key=lambda x: ("rule" in str(x), len(str(x)))), depth + 1)
        if kind == "seq":
            return "".join(walk(x, depth + 1) for x in e[1])
        lo, hi = e[2], e[3] if e[3] is not None else e[2] + 4
        return "".join(walk(e[1], depth + 1) for _ in range(rnd.randint(lo, hi) if depth < 12 else lo))
    for _ in range(n):
        s = walk(("rule", "root"), 0)[:60] if rnd.random() < 0.7 else "".join(rnd.choices(alphabet, k=rnd.randint(0, 8)))
        if s and rnd.random() < 0.4:
            i = rnd.randrange(len(s))
            s = s[:i] + rnd.choice(["", rnd.choice(alphabet), s[i] * 2]) + s[i + 1:]
        yield s


def check_grammar(ie, tmp_path, kind, text, texts):
    path = tmp_path / "grammar"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    r = subprocess.run([ie.path("tests/grammar_check"), kind, str(path)], input="".join(t.encode().hex() + "\n" for t in texts),
                                                      capture_output=True, text=True, timeout=120, env=ie.env)
    assert r.returncode == 0, r.stdout[-300:] + r.stderr
    return r.stdout.strip() if r.stdout.startswith("error") else r.stdout.split()


@pytest.mark.parametrize("name", GRAMMARS)
def test_gbnf_against_a_slow_matcher(ie, tmp_path, name):
    g = gbnf_slow.Grammar(GRAMMARS[name])
    rnd = random.Random(name)
    alphabet = sorted(set("abcdefxO-+=123.()[] \n!éяё" + GRAMMARS[name][:200]))
    texts = list(variants(rnd, g, alphabet, 400))
    got = check_grammar(ie, tmp_path, "gbnf", GRAMMARS[name], texts)
    want = [g.matches(t) for t in texts]
    assert 20 < sum(want) < 380 or name in ("empty", "unicode")
    wrong = [(t, a, b) for t, a, b in zip(texts, got, want, strict=True) if (a == "yes") != b]
    assert not wrong, wrong[:5]
    prefixes = [t[:rnd.randint(0, len(t))] for t, ok in zip(texts, want) if ok]
    assert "no" not in check_grammar(ie, tmp_path, "gbnf", GRAMMARS[name], prefixes)


# ---- inputs that mean harm --------------------------------------------------------------------------------------------------

def nested_schema(depth):
    s = {"type": "integer"}
    for _ in range(depth):
        s = {"type": "object", "properties": {"a": s}, "required": ["a"]}
    with gbnf_slow.deep():
        return json.dumps(s)


BOMB = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(28)}
BOMB["d28"] = {"type": "object", "properties": {"x": {"type": "string"}}}
# kind, source, a text, what is answered: a word, or the beginning of the refusal
HOSTILE = {
    "deep groups": ("gbnf", "root ::= " + "(" * 100000 + '"a"' + ")" * 100000, "a", "error: grammar, line 1: groups are nested deeper than 1000"),
    "900 groups": ("gbnf", "root ::= " + "(" * 900 + '"a"' + ")*" * 900, "aaa", "yes"),
    "a million alternatives": ("gbnf", "root ::= " + "|".join(['"a"'] * 10**6), "a", "yes"),
    "too many alternatives": ("gbnf", "root ::= " + "|".join(['""'] * 1100000), "", "error: grammar: too large"),
    "a count of 10^9": ("gbnf", 'root ::= "a"{0,1000000000}', "a" * 2000, "yes"),
    "counts of counts": ("gbnf", 'root ::= ((("a"{0,1000}){0,1000}){0,1000}){0,1000}', "a" * 100, "yes"),
    "exponential ambiguity": ("gbnf", 'root ::= s\ns ::= "a" s s | "a" s | "a"', "a" * 100, "yes"),
    "no small automaton": ("gbnf", 'root ::= ([ab]* "a" [ab]{12} )*', "ab" * 50, "part"),
    "2000 optional parts": ("gbnf", "root ::= " + '"a"? ' * 2000, "a" * 200, "yes"),
    "json as deep as can be": ("schema", '{"a":' * 3000 + "1" + "}" * 3000, "1", "error: schema: no JSON"),
    "a schema 600 deep": ("schema", nested_schema(600), '{"a":' * 600 + "1" + "}" * 600, "yes"),
    "a schema that is itself": ("schema", '{"$ref":"#"}', "1", "error: schema, at #: keywords '$ref' and 'allOf' lead into each other"),
    "2^28 references": ("schema", json.dumps({"$defs": BOMB, "$ref": "#/$defs/d0"}), "1", "error: schema, at #: too large"),
    "an infinite object": ("schema", '{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}', "{}", "error: grammar: no text fits"),
    "an enum of 50000": ("schema", json.dumps({"enum": [f"w{i}" for i in range(50000)]}), '"w7"', "yes"),
    "a long string": ("schema", '{"type":"string","minLength":1000000000}', '"a', "part"),
    "a pattern of a million": ("schema", '{"type":"string","pattern":"((a{1,100}){1,100}){1,100}"}', '"a"', "error: schema, at #: keyword 'pattern'"),
    "a pattern that backtracks": ("schema", '{"type":"string","pattern":"^(a|a)*(a*)*b$"}', '"' + "a" * 200, "part"),
    "3000 properties": ("schema", json.dumps({"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(3000)}}), '{"p7":1}', "yes"),
    "a huge bound": ("schema", '{"type":"integer","minimum":1e300}', "1", "error: schema, at #: keyword 'minimum'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(ie, tmp_path, name):
    kind, source, text, want = HOSTILE[name]
    path = tmp_path / "grammar"
    path.write_text(source)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    r = subprocess.run([ie.path("tests/grammar_check"), kind, str(path)], input=text.encode().hex() + "\n", capture_output=True, text=True, timeout=60,
                       env=ie.env, preexec_fn=limit)
    assert r.returncode == 0, r.stdout + r.stderr
    assert r.stdout.startswith(want) and r.stdout.count("\n") == 1, r.stdout


# ---- ie-run ------------------------------------------------------------------------------------------------------------------

def test_ie_run(ie, tiny, tmp_path):
    model = tiny("q8_0")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}
    (tmp_path / "s.json").write_text(json.dumps(schema))
    (tmp_path / "g.gbnf").write_text('root ::= ("yes" | "no") "!"\n')
    for how in (json.dumps(schema), tmp_path / "s.json"):
        jsonschema.validate(json.loads(ie.run(model, "-p", "x", "-q", "--temp", 1, "-n", 60, "--json-schema", how).stdout), schema)
    for how in ('root ::= ("yes" | "no") "!"', tmp_path / "g.gbnf"):
        assert ie.run(model, "-p", "x", "-q", "--grammar", how).stdout in ("yes!\n", "no!\n")
    out = json.loads(ie.run(model, "-p", "x", "--json", "--json-object", "--temp", 1, "-n", 20).stdout)
    assert isinstance(json.loads(out["text"]), dict) and len(out["tokens"]) <= 20
    ids = ie.run(model, "--tokens", "1,2,3", "--grammar", 'root ::= "ab"', "-n", 8).stdout  # ends where the grammar does, without --stop
    assert ids.split("\n")[0].count(",") <= 2 + 3


def test_ie_run_refuses(ie, tiny, tmp_path):
    model = tiny("q8_0")
    assert "'not'" in ie.fails(model, "-p", "x", "-q", "--json-schema", '{"not": {}}')
    assert "left-recursive" in ie.fails(model, "-p", "x", "-q", "--grammar", "root ::= root")
    assert "more tokens are needed" in ie.fails(model, "-p", "x", "-q", "-n", 1, "--grammar", 'root ::= "0123456789"')
    assert "only one of" in ie.fails(model, "-p", "x", "--json-object", "--grammar", "root ::= \"a\"")
    assert "generation and --chat only" in ie.fails(model, "--info", "--json-object")
    assert str(tmp_path / "none") in ie.fails(model, "-p", "x", "-q", "--json-schema", tmp_path / "none")
