"""Prints, for every property, the code points at which it changes over all of Unicode, and every case mapping in order."""
import hashlib, json, unicodedata

out = {"version": unicodedata.unidata_version}
for m in ["isprintable", "isspace", "isalpha", "isdecimal", "isdigit", "isnumeric", "isalnum", "isupper", "islower"]:
    edges, last = [], False
    for c in range(0x110000):
        p = getattr(chr(c), m)()
        if p != last:
            edges.append(c)
            last = p
    out[m] = edges
for m in ["upper", "lower", "title"]:
    h = hashlib.sha256()
    for c in range(0x110000):
        h.update(getattr(chr(c), m)().encode("utf-8", "surrogatepass") + b"\n")
    out[m] = h.hexdigest()
print(json.dumps(out))
