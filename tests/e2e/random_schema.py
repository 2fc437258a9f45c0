"""Random JSON Schemas of the kinds that constrained output supports, each with at least one valid value."""
import random
import string

PATTERNS = ["^[a-z]{2,5}$", "^[A-Z][a-z]+$", "[0-9]{3}", "^(foo|bar|baz)-\\d+$", "^\\w+@\\w+\\.com$", "^#[0-9a-f]{6}$", "^(a|b)*c$",
            "^[^\"\\\\]{1,4}$", "^\\s*x\\S$", "x.y", "^é[à-ü]+$", "^\"q\"$", "^a?b?c{2,}$"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration"]
WORDS = ["name", "id", "value", "tags", "größe", "a b", "x", "items", "kind", "\"quoted\"", "na", "namespace", "日本", "deep"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.defs = {}

    def schema(self):
        s = self.any(3)
        if self.r.random() < 0.15:  # a recursive type
            self.defs["tree"] = {"type": "object", "properties": {"v": self.scalar(), "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
                                 "required": ["v"], "additionalProperties": False}
            s = {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}, "s": s}, "required": self.some(["t", "s"])}
        if self.defs:
            s = {**s, "$defs": self.defs}
        return s

    def some(self, list):
        return [x for x in list if self.r.random() < 0.6]

    def any(self, depth):
        r = self.r
        kind = r.choices(["object", "array", "scalar", "anyOf", "oneOf", "allOf", "ref"], [6, 3, 5 if depth < 3 else 2, 1, 1, 1, 1])[0]
        if depth == 0 or kind == "scalar":
            return self.scalar()
        if kind == "anyOf":
            return {"anyOf": [self.any(depth - 1) for _ in range(r.randint(1, 3))]}
        if kind == "oneOf":
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k}, "p": self.any(depth - 1)}, "required": ["kind"]} for k in "abc"[:r.randint(1, 3)]]}
        if kind == "allOf":
            a, b = self.object(depth), self.object(depth)
            for o in (a, b):  # closed parts would forbid each other's properties
                for k in ("additionalProperties", "maxProperties", "minProperties"):
                    o.pop(k, None)
            b["properties"] = {k + "2": v for k, v in b["properties"].items()}
            b["required"] = [k + "2" for k in b["required"]]
            return {"allOf": [a, b]}
        if kind == "ref":
            name = f"d{len(self.defs)}"
            self.defs[name] = {}
            self.defs[name] = self.any(depth - 1)
            return {"$ref": f"#/$defs/{name}"}
        return self.object(depth) if kind == "object" else self.array(depth)

    def object(self, depth):
        r = self.r
        names = r.sample(WORDS, r.randint(0, 4))
        s = {"type": "object", "properties": {n: self.any(depth - 1) for n in names}, "required": self.some(names)}
        if r.random() < 0.3:
            s["additionalProperties"] = r.choice([False, self.scalar()])
        if r.random() < 0.15 and len(s["required"]) < len(names):
            s["maxProperties"] = r.randint(len(s["required"]), len(names))
        if r.random() < 0.15 and len(names):
            s["minProperties"] = r.randint(0, min(len(names), len(s["required"]) + 1) if s.get("additionalProperties") is False else len(s["required"]) + 1)
            s["maxProperties"] = max(s.get("maxProperties", 0), s["minProperties"], len(s["required"]))
        return s

    def array(self, depth):
        r = self.r
        s = {"type": "array"}
        if r.random() < 0.3:
            s["prefixItems"] = [self.any(depth - 1) for _ in range(r.randint(1, 3))]
            s["items"] = r.choice([False, self.scalar()])
        else:
            s["items"] = self.any(depth - 1)
        if r.random() < 0.5 and s["items"] is not False:
            s["minItems"] = r.randint(0, 3)
        if r.random() < 0.6:
            s["maxItems"] = s.get("minItems", 0) + r.randint(0, 3)
        return s

    def scalar(self):
        return getattr(self, self.r.choice(["string", "string", "integer", "number", "enum", "const", "boolean", "null", "types"]))()

    def string(self):
        r, s = self.r, {"type": "string"}
        k = r.random()
        if k < 0.25:
            s["pattern"] = r.choice(PATTERNS)
        elif k < 0.45:
            s["format"] = r.choice(FORMATS)
        elif k < 0.75:
            s["minLength"] = r.randint(0, 8)
            if r.random() < 0.7:
                s["maxLength"] = s["minLength"] + r.randint(0, 20)
        return s

    def integer(self):
        r, s = self.r, {"type": "integer"}
        a = r.choice([r.randint(-20, 20), r.randint(-10**6, 10**6), r.randint(-2**53, 2**53)])
        b = a + r.choice([0, 1, 7, 100, 10**5, 2**40])
        if r.random() < 0.6:
            s["minimum" if r.random() < 0.7 else "exclusiveMinimum"] = a
        if r.random() < 0.6:
            s["maximum" if r.random() < 0.7 else "exclusiveMaximum"] = b + 2
        if len(s) == 1 and r.random() < 0.3:
            s["multipleOf"] = r.choice([1, 2, 7, 100, 360])
        return s

    def number(self):
        r, s = self.r, {"type": "number"}
        a = r.choice([0, -1, 0.1, 3.14159, -273.15, 1e-3, 12345.678, r.uniform(-100, 100)])
        b = a + r.choice([0.5, 1, 1e-3, 1000, 1e9, r.random() + 0.01])
        if r.random() < 0.6:
            s["minimum" if r.random() < 0.6 else "exclusiveMinimum"] = a
        if r.random() < 0.6:
            s["maximum" if r.random() < 0.6 else "exclusiveMaximum"] = b
        return s

    def enum(self):
        values = ["red", "green", "blå", 1, -2.5, None, True, {"a": [1, "x"]}, [], "a\"b\\c\n", 1e30, ""]
        return {"enum": self.r.sample(values, self.r.randint(1, 5))}

    def const(self):
        return {"const": self.r.choice(["fixed", 7, 0.1, None, [1, 2], {"k": "v"}, "".join(self.r.choices(string.ascii_letters, k=40))])}

    def boolean(self):
        return {"type": "boolean"}

    def null(self):
        return {"type": "null"}

    def types(self):
        return {"type": self.r.sample(["string", "integer", "number", "boolean", "null"], self.r.randint(1, 3))}
