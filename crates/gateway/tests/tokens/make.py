"""Makes the table of tokens, good and bad, that the gateway's tests hold it to, and the keys that signed them.

    python3 -m venv venv && venv/bin/pip install 'pyjwt[crypto]' && venv/bin/python make.py

The tokens come from PyJWT where it makes them, and from `cryptography` and this file where it rightly refuses to.
Nothing ages: what is valid expires in 2100, what has expired did so in 2001. Keys that are there already are used again.
They are published here, so they are worth nothing: never use them for anything but these tests.
"""

import base64
import hashlib
import hmac
import json
import pathlib

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

HERE = pathlib.Path(__file__).parent
FAR = 4102444800  # 2100
PAST = 1000000000  # 2001
ISSUER, AUDIENCE = "https://auth.test", "presence"
SECRETS = ["the old secret of these tests, 32 or more", "the new secret of these tests, 32 or more"]
PUBLISHED_SECRET = "a secret that somebody published by mistake"
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def js(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def private_key(name, make):
    """The key of a file, which is made where there is none."""
    path = HERE / "keys" / f"{name}.private-test-only.pem"
    if not path.exists():
        pem = make().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pem)
    return serialization.load_pem_private_key(path.read_bytes(), None)


def rsa_key(bits=2048):
    return lambda: rsa.generate_private_key(65537, bits)


def ec_key(curve):
    return lambda: ec.generate_private_key(curve)


def public_pem(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def number(value, size=None):
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


def jwk(key, kid, **more):
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        parts = public.public_numbers()
        own = {"kty": "RSA", "n": number(parts.n), "e": number(parts.e)}
    elif isinstance(public, ec.EllipticCurvePublicKey):
        parts, size = public.public_numbers(), (public.curve.key_size + 7) // 8
        curve = {"secp256r1": "P-256", "secp384r1": "P-384", "secp256k1": "secp256k1"}
        own = {"kty": "EC", "crv": curve[public.curve.name]}
        own |= {"x": number(parts.x, size), "y": number(parts.y, size)}
    else:
        raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        own = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}
    return own | {"kid": kid} | more


# Who signs: these are the gateway's, by a file and by a URL …
RSA_FILE = private_key("file-rsa", rsa_key())
EC_FILE = private_key("file-ec", ec_key(ec.SECP256R1()))
ED_FILE = private_key("file-ed", ed25519.Ed25519PrivateKey.generate)
RSA_URL = private_key("url-rsa", rsa_key())
EC_URL = private_key("url-ec", ec_key(ec.SECP256R1()))
ED_URL = private_key("url-ed", ed25519.Ed25519PrivateKey.generate)
# … these are published, but not to be taken …
RSA_SHORT = private_key("short-rsa", rsa_key(1024))
RSA_OTHER_USE = private_key("other-use-rsa", rsa_key())
EC_384 = private_key("other-curve-ec384", ec_key(ec.SECP384R1()))
EC_K1 = private_key("other-curve-eck1", ec_key(ec.SECP256K1()))
# … and these are an attacker's.
RSA_EVIL = private_key("evil-rsa", rsa_key())
EC_EVIL = private_key("evil-ec", ec_key(ec.SECP256R1()))
ED_EVIL = private_key("evil-ed", ed25519.Ed25519PrivateKey.generate)

FILE_PEM = b"".join(public_pem(key) for key in (RSA_FILE, EC_FILE, ED_FILE))
KEY_SET = {
    "keys": [
        jwk(RSA_URL, "rsa-1", use="sig", alg="RS256"),
        jwk(EC_URL, "ec-1", use="sig"),
        jwk(ED_URL, "ed-1", key_ops=["verify"]),
        jwk(RSA_SHORT, "rsa-short", use="sig", alg="RS256"),
        jwk(RSA_OTHER_USE, "rsa-enc", use="enc"),
        jwk(RSA_OTHER_USE, "rsa-512", use="sig", alg="RS512"),
        jwk(EC_384, "ec-384", use="sig", alg="ES384"),
        jwk(EC_K1, "ec-k1", use="sig", alg="ES256K"),
        jwk(ED_EVIL, "ed-cut", use="sig") | {"x": "AAAA"},
        {"kty": "oct", "kid": "oct-1", "k": b64(PUBLISHED_SECRET.encode())},
        {"kty": "moon", "kid": "moon-1"},
        7,
    ]
}


def hs(secret, digest=hashlib.sha256):
    secret = secret.encode() if isinstance(secret, str) else secret
    return lambda message: hmac.new(secret, message, digest).digest()


def rs(key, digest=None, pad=None):
    return lambda message: key.sign(message, pad or padding.PKCS1v15(), digest or hashes.SHA256())


def es_der(key, digest=None):
    return lambda message: key.sign(message, ec.ECDSA(digest or hashes.SHA256()))


def es(key, size=32, digest=None):
    def sign(message):
        r, s = decode_dss_signature(es_der(key, digest)(message))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")

    return sign


def ed(key):
    return key.sign


def ed_plus_order(key):
    """The same signature with the order of the group added to its second half."""

    def sign(message):
        signature = key.sign(message)
        s = int.from_bytes(signature[32:], "little") + ED25519_ORDER
        return signature[:32] + s.to_bytes(32, "little")

    return sign


def claims(**changes):
    good = {"sub": "ana", "exp": FAR, "iss": ISSUER, "aud": AUDIENCE}
    return {name: value for name, value in (good | changes).items() if value is not ...}


def raw(header, payload, sign):
    """A token of any header and payload, bytes or values."""
    parts = [part if isinstance(part, bytes) else js(part) for part in (header, payload)]
    message = ".".join(b64(part) for part in parts)
    return f"{message}.{b64(sign(message.encode()))}"


def pyjwt(key, algorithm, payload=None, **header):
    return jwt.encode(payload or claims(), key, algorithm, headers=header or None)


SECRET = SECRETS[0]
ROWS = []


def good(name, token, user="ana"):
    ROWS.append({"name": name, "token": token, "user": user})


def bad(name, rule, token):
    ROWS.append({"name": name, "token": token, "rule": rule})


def hs_header(**more):
    return {"alg": "HS256", "typ": "JWT"} | more


def of_claims(payload):
    """A token that is right but for its claims."""
    return raw(hs_header(), payload, hs(SECRET))


def good_tokens():
    good("HS256 by the first secret", pyjwt(SECRETS[0], "HS256"))
    good("HS256 by the second secret", pyjwt(SECRETS[1], "HS256"))
    good("HS256 with a kid, which no secret has", pyjwt(SECRET, "HS256", kid="2024-05"))
    good("RS256 by the file", pyjwt(RSA_FILE, "RS256"))
    good("ES256 by the file", pyjwt(EC_FILE, "ES256"))
    good("EdDSA by the file", pyjwt(ED_FILE, "EdDSA"))
    good("a kid on a key of the file, which has none", pyjwt(EC_FILE, "ES256", kid="ec-file"))
    good("RS256 by the URL", pyjwt(RSA_URL, "RS256", kid="rsa-1"))
    good("ES256 by the URL", pyjwt(EC_URL, "ES256", kid="ec-1"))
    good("EdDSA by the URL", pyjwt(ED_URL, "EdDSA", kid="ed-1"))
    good("RS256 by the URL without a kid", pyjwt(RSA_URL, "RS256"))
    good("kid null is no kid", raw(hs_header(kid=None), claims(), hs(SECRET)))
    good("no typ", raw({"alg": "HS256"}, claims(), hs(SECRET)))
    good("another typ", pyjwt(SECRET, "HS256", typ="at+jwt"))
    good("crit with b64 true", raw(hs_header(b64=True, crit=["b64"]), claims(), hs(SECRET)))
    good("a jwk of somebody else, which is not looked at",
         pyjwt(ED_URL, "EdDSA", kid="ed-1", jwk=jwk(ED_EVIL, "ed-1")))
    good("aud in a list", pyjwt(SECRET, "HS256", claims(aud=["shop", AUDIENCE])))
    good("exp with a fraction", of_claims(claims(exp=FAR + 0.5)))
    good("exp in scientific notation", of_claims(js(claims(exp=...))[:-1] + b',"exp":4.1e9}'))
    good("exp beyond what a clock can say", of_claims(claims(exp=2**63)))
    good("nbf long ago", pyjwt(SECRET, "HS256", claims(nbf=PAST)))
    good("iat to come, which says nothing of validity", of_claims(claims(iat=FAR)))
    good("a sub of 128 bytes", pyjwt(SECRET, "HS256", claims(sub="x" * 128)), "x" * 128)
    good("a sub of any UTF-8", pyjwt(SECRET, "HS256", claims(sub="ана 🦀")), "ана 🦀")
    good("a sub with a line end", pyjwt(SECRET, "HS256", claims(sub="a\nb")), "a\nb")
    good("claims that mean nothing here", pyjwt(SECRET, "HS256", claims(scope=[{"x": None}])))


def algorithms():
    unsigned = b64(js({"alg": "none", "typ": "JWT"})) + "." + b64(js(claims())) + "."
    bad("alg none", "malformed", unsigned)
    for alg in ("none", "None", "NONE", "nOnE"):
        token = raw({"alg": alg, "typ": "JWT"}, claims(), hs(SECRET))
        bad(f"alg {alg} with a signature", "malformed", token)
    for alg in ("", "hs256", "HS256 ", "HS256\0", "ES512", "ES256K", "Ed25519", None, 7, ["HS256"]):
        bad(f"alg {alg!r}", "malformed", raw({"alg": alg}, claims(), hs(SECRET)))
    bad("no alg", "malformed", raw({"typ": "JWT"}, claims(), hs(SECRET)))
    bad("two algs", "malformed", raw(b'{"alg":"none","alg":"HS256"}', claims(), hs(SECRET)))
    bad("HS384", "wrong_algorithm", pyjwt(SECRET + SECRET, "HS384"))
    bad("HS512", "wrong_algorithm", pyjwt(SECRET + SECRET, "HS512"))
    bad("RS384", "wrong_algorithm", pyjwt(RSA_FILE, "RS384"))
    bad("RS512", "wrong_algorithm", pyjwt(RSA_FILE, "RS512"))
    bad("PS256", "wrong_algorithm", pyjwt(RSA_FILE, "PS256"))
    bad("ES384", "wrong_algorithm", pyjwt(EC_384, "ES384"))
    bad("RS512 by the URL", "unknown_key", pyjwt(RSA_URL, "RS512", kid="rsa-1"))


def confusion():
    """Public keys taken for secrets, and other mixtures."""
    secrets = [("the file of public keys", FILE_PEM), ("its text without the line end", FILE_PEM[:-1])]
    for name, key in (("RSA", RSA_FILE), ("EC", EC_FILE), ("Ed25519", ED_FILE)):
        der = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        secrets += [(f"the {name} key's PEM", public_pem(key)), (f"the {name} key's DER", der)]
    numbers = RSA_URL.public_key().public_numbers()
    secrets += [
        ("a published modulus", numbers.n.to_bytes(256, "big")),
        ("the text of a published modulus", number(numbers.n)),
        ("the key set", js(KEY_SET)),
        ("a published secret", PUBLISHED_SECRET),
        ("nothing", ""),
    ]
    for name, secret in secrets:
        bad(f"HS256 by {name}", "bad_signature", raw(hs_header(), claims(), hs(secret)))
    bad("HS256 that names an RSA key", "bad_signature",
        raw(hs_header(kid="rsa-1"), claims(), hs(public_pem(RSA_URL))))
    bad("HS256 that names a published secret", "bad_signature",
        raw(hs_header(kid="oct-1"), claims(), hs(PUBLISHED_SECRET)))
    bad("RS256 that names an EC key", "unknown_key",
        raw({"alg": "RS256", "kid": "ec-1"}, claims(), es(EC_URL)))
    bad("RS256 in the header, ES256 below", "bad_signature",
        raw({"alg": "RS256"}, claims(), es(EC_FILE)))
    bad("RS256 in the header, PS256 below", "bad_signature",
        raw({"alg": "RS256"}, claims(), rs(RSA_FILE, pad=padding.PSS(
            padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH))))
    bad("RS256 in the header, RS512 below", "bad_signature",
        raw({"alg": "RS256"}, claims(), rs(RSA_FILE, hashes.SHA512())))
    bad("ES256 in the header, P-256 with SHA-384 below", "bad_signature",
        raw({"alg": "ES256"}, claims(), es(EC_FILE, digest=hashes.SHA384())))


def keys():
    for name, alg, key, kid in (
        ("RS256", "RS256", RSA_EVIL, "rsa-1"),
        ("ES256", "ES256", EC_EVIL, "ec-1"),
        ("EdDSA", "EdDSA", ED_EVIL, "ed-1"),
    ):
        bad(f"{name} by another key", "bad_signature", pyjwt(key, alg))
        bad(f"{name} by another key that takes a known name", "bad_signature", pyjwt(key, alg, kid=kid))
        bad(f"{name} by another key with a name of its own", "unknown_key", pyjwt(key, alg, kid="evil"))
    bad("HS256 by another secret", "bad_signature", pyjwt("x" * 40, "HS256"))
    bad("a known key under an unknown name", "unknown_key", pyjwt(RSA_URL, "RS256", kid="rsa-9"))
    bad("a known name in other letters", "unknown_key", pyjwt(RSA_URL, "RS256", kid="RSA-1"))
    bad("a key of 1024 bits", "unknown_key",
        raw({"alg": "RS256", "kid": "rsa-short"}, claims(), rs(RSA_SHORT)))
    bad("a key of 1024 bits, not named", "bad_signature", raw({"alg": "RS256"}, claims(), rs(RSA_SHORT)))
    bad("a key for encryption", "unknown_key", pyjwt(RSA_OTHER_USE, "RS256", kid="rsa-enc"))
    bad("a key for another algorithm", "unknown_key", pyjwt(RSA_OTHER_USE, "RS256", kid="rsa-512"))
    bad("a key on P-384", "unknown_key", pyjwt(EC_384, "ES384", kid="ec-384"))
    bad("a key on secp256k1", "unknown_key",
        raw({"alg": "ES256", "kid": "ec-k1"}, claims(), es(EC_K1)))
    bad("a kid that walks to a file", "bad_signature",
        raw(hs_header(kid="../../../../dev/null"), claims(), hs("")))
    bad("a kid that asks a database", "unknown_key",
        pyjwt(RSA_EVIL, "RS256", kid="x' UNION SELECT 'secret"))
    for kid in (7, True, ["rsa-1"], {"x": 1}):
        bad(f"kid {kid!r}", "malformed", raw(hs_header(kid=kid), claims(), hs(SECRET)))
    bad("two kids", "malformed",
        raw(b'{"alg":"HS256","kid":"a","kid":"b"}', claims(), hs(SECRET)))
    url = "http://127.0.0.1:9/keys"
    bad("a key in the header (jwk)", "bad_signature", pyjwt(RSA_EVIL, "RS256", jwk=jwk(RSA_EVIL, "x")))
    bad("a secret in the header (jwk)", "bad_signature",
        raw(hs_header(jwk={"kty": "oct", "k": b64(b"evil")}), claims(), hs("evil")))
    bad("a URL of keys in the header (jku)", "bad_signature", pyjwt(RSA_EVIL, "RS256", jku=url))
    bad("a URL of certificates in the header (x5u)", "bad_signature", pyjwt(RSA_EVIL, "RS256", x5u=url))
    bad("a certificate in the header (x5c)", "bad_signature",
        pyjwt(RSA_EVIL, "RS256", x5c=[base64.b64encode(public_pem(RSA_EVIL)).decode()]))


def signatures():
    for name, header, sign in (
        ("HS256", hs_header(), hs(SECRET)),
        ("RS256", {"alg": "RS256"}, rs(RSA_FILE)),
        ("ES256", {"alg": "ES256"}, es(EC_FILE)),
        ("EdDSA", {"alg": "EdDSA"}, ed(ED_FILE)),
    ):
        token = raw(header, claims(), sign)
        message, signature = token.rsplit(".", 1)
        bytes_ = base64.urlsafe_b64decode(signature + "==")
        flipped = bytes([bytes_[0] ^ 1]) + bytes_[1:]
        for what, changed in (
            ("no signature", b""),
            ("a signature of zeros", bytes(len(bytes_))),
            ("a signature of ones", b"\xff" * len(bytes_)),
            ("a signature cut by a byte", bytes_[:-1]),
            ("a signature with a zero before it", b"\0" + bytes_),
            ("a signature with a zero after it", bytes_ + b"\0"),
            ("a signature with one bit changed", flipped),
        ):
            bad(f"{name} with {what}", "bad_signature", f"{message}.{b64(changed)}")
        header_part, _ = message.split(".")
        other = b64(js(claims(sub="bo")))
        bad(f"{name} with another payload", "bad_signature", f"{header_part}.{other}.{signature}")
        other = b64(js(header | {"typ": "jwt"}))
        bad(f"{name} with another header", "bad_signature", f"{other}.{message.split('.')[1]}.{signature}")
    bad("ES256 with its signature in DER", "bad_signature", raw({"alg": "ES256"}, claims(), es_der(EC_FILE)))
    bad("EdDSA with the order added to its signature", "bad_signature",
        raw({"alg": "EdDSA"}, claims(), ed_plus_order(ED_FILE)))


def forms():
    token = of_claims(claims())
    header, payload, signature = token.split(".")
    for name, changed in (
        ("nothing", ""),
        ("one dot", "."),
        ("two dots", ".."),
        ("a word", "token"),
        ("two parts", f"{header}.{payload}"),
        ("four parts", f"{token}.{signature}"),
        ("five parts, as of an encrypted token", f"{token}.{signature}.{signature}"),
        ("a dot before", f".{token}"),
        ("a dot after", f"{token}."),
        ("no header", f".{payload}.{signature}"),
        ("a space before", f" {token}"),
        ("a line end after", f"{token}\n"),
        ("a padded signature", f"{token}="),
        ("a signature in the other base64", f"{header}.{payload}.{signature[:-1]}+"),
        ("letters that are not base64", "ä.ö.ü"),
        ("twice Bearer", f"Bearer {token}"),
        ("quotes around", f'"{token}"'),
    ):
        bad(name, "malformed", changed)
    bad("no payload", "bad_signature", f"{header}..{signature}")
    bad("a space inside", "bad_signature", f"{header}. {payload}.{signature}")
    bad("a line end inside", "bad_signature", f"{header}.{payload}\n.{signature}")
    for name, inside in (("a space", f"{header}. {payload}"), ("a line end", f"{header}.{payload}\n")):
        bad(f"{name} inside, and signed", "malformed", f"{inside}.{b64(hs(SECRET)(inside.encode()))}")
    padded = f"{header}.{payload}{'=' * (-len(payload) % 4) or '===='}"
    bad("a payload that was padded and signed", "malformed", f"{padded}.{b64(hs(SECRET)(padded.encode()))}")
    bad("longer than 64 KiB", "too_long", of_claims(claims(pad="x" * 50_000)))
    for name, part in (
        ("no JSON", b"not json"), ("a list", b"[]"), ("null", b"null"), ("a text", b'"ana"'),
        ("cut off", b'{"sub":"ana"'), ("not UTF-8", b'{"sub":"\xff","exp":1}'),
        ("two values", b"{} {}"), ("very deep", b'{"x":' + b"[" * 9000),
    ):
        bad(f"a payload that is {name}", "malformed", of_claims(part))
        bad(f"a header that is {name}", "malformed", raw(part, claims(), hs(SECRET)))
    for crit, more in ((["b64"], {"b64": False}), (["exp"], {"exp": FAR}), ([], {}), ("b64", {}), (["x"], {})):
        bad(f"crit {crit!r} with {more!r}", "malformed", raw(hs_header(crit=crit, **more), claims(), hs(SECRET)))
    bad("b64 false without crit", "malformed", raw(hs_header(b64=False), claims(), hs(SECRET)))


def times():
    bad("exp long ago", "expired", pyjwt(SECRET, "HS256", claims(exp=PAST)))
    bad("exp long ago, RS256", "expired", pyjwt(RSA_FILE, "RS256", claims(exp=PAST)))
    bad("exp of zero", "expired", of_claims(claims(exp=0)))
    bad("exp long ago, and another issuer", "expired", of_claims(claims(exp=PAST, iss="evil")))
    bad("exp long ago, by another key", "bad_signature", pyjwt("x" * 40, "HS256", claims(exp=PAST)))
    bad("no exp", "missing_claim", of_claims(claims(exp=...)))
    bad("exp null", "missing_claim", of_claims(claims(exp=None)))
    for exp in (str(FAR), "", -1, -FAR, True, [FAR], {"x": FAR}):
        bad(f"exp {exp!r}", "malformed", of_claims(claims(exp=exp)))
    bad("exp that is no finite number", "malformed", of_claims(js(claims(exp=...))[:-1] + b',"exp":1e999}'))
    bad("exp beyond 64 bits", "missing_claim", of_claims(claims(exp=2**70)))
    bad("exp NaN", "malformed", of_claims(js(claims(exp=...))[:-1] + b',"exp":NaN}'))
    bad("two exps", "malformed", of_claims(js(claims(exp=PAST))[:-1] + b',"exp":4102444800}'))
    bad("nbf to come", "not_yet_valid", pyjwt(SECRET, "HS256", claims(nbf=FAR)))
    for nbf in (str(PAST), -1, [PAST]):
        bad(f"nbf {nbf!r}", "malformed", of_claims(claims(nbf=nbf)))


def names():
    bad("another issuer", "wrong_issuer", of_claims(claims(iss="https://evil.test")))
    bad("the issuer with a slash after it", "wrong_issuer", of_claims(claims(iss=ISSUER + "/")))
    bad("an empty issuer", "wrong_issuer", of_claims(claims(iss="")))
    bad("no issuer", "missing_claim", of_claims(claims(iss=...)))
    for iss in ([ISSUER], 7):
        bad(f"iss {iss!r}", "malformed", of_claims(claims(iss=iss)))
    bad("two issuers", "malformed", of_claims(js(claims(iss="evil"))[:-1] + b',"iss":"' + ISSUER.encode() + b'"}'))
    bad("another audience", "wrong_audience", of_claims(claims(aud="shop")))
    bad("other audiences", "wrong_audience", of_claims(claims(aud=["shop", "presence2"])))
    bad("an empty list of audiences", "wrong_audience", of_claims(claims(aud=[])))
    bad("no audience", "missing_claim", of_claims(claims(aud=...)))
    for aud in (7, {"x": AUDIENCE}, [AUDIENCE, 7]):
        bad(f"aud {aud!r}", "missing_claim", of_claims(claims(aud=aud)))
    bad("two audiences", "malformed", of_claims(js(claims(aud="shop"))[:-1] + b',"aud":"presence"}'))
    bad("no sub", "missing_claim", of_claims(claims(sub=...)))
    bad("sub null", "missing_claim", of_claims(claims(sub=None)))
    bad("an empty sub", "bad_user", of_claims(claims(sub="")))
    bad("a sub of 129 bytes", "bad_user", of_claims(claims(sub="x" * 129)))
    bad("a sub of 65 letters of two bytes", "bad_user", of_claims(claims(sub="я" * 65)))
    for sub in (7, True, ["ana"], {"id": "ana"}):
        bad(f"sub {sub!r}", "malformed", of_claims(claims(sub=sub)))
    bad("a sub with half a character", "malformed", of_claims(js(claims(sub=...))[:-1] + b',"sub":"\\ud800"}'))
    bad("two subs", "malformed", of_claims(js(claims(sub="bo"))[:-1] + b',"sub":"ana"}'))
    for watch in ("bo", 7, [1], {"bo": True}):
        bad(f"watch {watch!r}", "malformed", of_claims(claims(watch=watch)))


for rows in (good_tokens, algorithms, confusion, keys, signatures, forms, times, names):
    rows()
(HERE / "secrets.txt").write_text("\n".join(SECRETS) + "\n")
(HERE / "public.pem").write_bytes(FILE_PEM)
for name, key in (
    ("file-ed", ED_FILE), ("url-ed", ED_URL), ("short-rsa", RSA_SHORT),
    ("other-curve-ec384", EC_384), ("other-curve-eck1", EC_K1),
):
    (HERE / "keys" / f"{name}.public.pem").write_bytes(public_pem(key))
(HERE / "jwks.json").write_text(json.dumps(KEY_SET, indent=1) + "\n")
with open(HERE / "table.json", "w", encoding="utf-8") as file:
    file.write("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n]\n")
bad_rows = sum("rule" in row for row in ROWS)
print(f"{len(ROWS)} tokens: {len(ROWS) - bad_rows} good, {bad_rows} bad")
