"""Made-up secrets of the kinds that have a shape; none of them opens anything."""

import hashlib
import re
import string

_ALPHABETS = {"": string.ascii_letters + string.digits, "U": string.ascii_uppercase + "234567", "x": "0123456789abcdef"}
_BLANK = re.compile(r"\{(\d+)([Ux]?)\}")

# Kind, the secret, and what it stands in: {40} is forty letters and digits, {16U} upper-case ones, {32x} hexadecimal.
_FORMS = [
    ("aws-access-key", "AKIA{16U}", "it is @ indeed"),
    ("aws-access-key", "ASIA{16U}", "AWS_ACCESS_KEY_ID=@"),
    ("aws-secret-key", "{40}", "aws_secret_access_key = @"),
    ("aws-secret-key", "{40}", '{"SecretAccessKey": "@"}'),
    ("github-token", "ghp_{36}", "it is @ indeed"),
    ("github-token", "gho_{36}", "(@)"),
    ("github-token", "ghu_{36}", "'@'"),
    ("github-token", "ghs_{36}", "GH=@;"),
    ("github-token", "ghr_{36}", "@"),
    ("github-token", "github_pat_{22}_{59}", "git clone https://x:@@git.example.org/a/b"),
    ("gitlab-token", "glpat-{20}", "--header 'PRIVATE-TOKEN: @'"),
    ("openai-key", "sk-{48}", "OPENAI_API_KEY=@"),
    ("openai-key", "sk-proj-{60}-{60}", "it is @ indeed"),
    ("openai-key", "sk-svcacct-{60}", "it is @ indeed"),
    ("anthropic-key", "sk-ant-api03-{80}-{10}AA", "key: @"),
    ("google-key", "AIza{35}", "https://maps.example.org/?key=@&q=a"),
    ("google-key", "GOCSPX-{28}", "it is @ indeed"),
    ("google-key", "ya29.{80}", "it is @ indeed"),
    ("slack-token", "xoxb-123456789012-{24}", "it is @ indeed"),
    ("slack-token", "xapp-1-A0123-{40}", "it is @ indeed"),
    ("webhook", "T0123ABCD/B0123ABCD/{24}", "https://hooks.slack.com/services/@"),
    ("stripe-key", "sk_live_{24}", "it is @ indeed"),
    ("stripe-key", "rk_test_{24}", "it is @ indeed"),
    ("stripe-key", "whsec_{32}", "it is @ indeed"),
    ("npm-token", "npm_{36}", "//registry.npmjs.org/:_authToken=@"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc{70}", "it is @ indeed"),
    ("huggingface-token", "hf_{34}", "it is @ indeed"),
    ("sendgrid-key", "SG.{22}.{43}x", "it is @ indeed"),
    ("digitalocean-token", "dop_v1_{64x}", "it is @ indeed"),
    ("shopify-token", "shpat_{32x}", "it is @ indeed"),
    ("vault-token", "hvs.{90}", "it is @ indeed"),
    ("docker-token", "dckr_pat_{27}", "it is @ indeed"),
    ("groq-key", "gsk_{52}", "it is @ indeed"),
    ("web-token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{300}.{43}", "Cookie: session=@; path=/"),
    ("web-token", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIi{60}.{342}", "Authorization: Bearer @"),
    ("authorization", "{40}", "authorization: bearer @"),
    ("authorization", "{40}==", '"Authorization": "Basic @"'),
    ("azure-key", "{86}==", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=@;EndpointSuffix=b"),
    ("azure-key", "{43}=", "Endpoint=sb://a/;SharedAccessKeyName=b;SharedAccessKey=@"),
    ("azure-key", "{20}%2B{20}%3D", "https://a.blob.example.org/c?sv=2022-11-02&sig=@&se=x"),
    ("url-password", "{12}", "postgresql://app:@@db.internal:5432/main"),
    ("url-password", "{12}", "REDIS_URL=redis://:@@cache:6379/0"),
    ("password", "{14}", "DB_PASSWORD=@"),
    ("password", "Tr4v3l&{6}", '{"user": "ada", "password": "@"}'),
    ("password", "{10}", "Server=tcp:a;Database=b;User ID=c;Password=@;Encrypt=True"),
    ("password", "{10}", '{"arguments": "{\\"passwd\\": \\"@\\"}"}'),
    ("token", "{32}", "X-Api-Key: @"),
    ("token", "{32}", "client_secret=@&grant_type=b"),
    ("token", "{24}", "export SLACK_SIGNING_SECRET='@'"),
    ("token", "{24}", "  access_token: @\n  expires: 3600"),
]
_KEYS = [
    ("RSA ", "\n", "@"),
    ("OPENSSH ", "\n", "cat ~/.ssh/id_ed25519\n@\n$"),
    ("", "\\n", '{"private_key": "@\\n"}'),
    ("EC ", "\r\n", "@"),
]


def run(size: int, seed: str, alphabet: str = "") -> str:
    """Return so many characters of an alphabet, the same for the same seed, with letters and digits among them."""
    chars = _ALPHABETS[alphabet]
    data = b"".join(hashlib.sha256(f"{seed}{n}".encode()).digest() for n in range(size // 32 + 1))
    mixed = "".join(chars[byte % len(chars)] for byte in data[:size])
    return mixed if alphabet else "a1" + mixed[2:]


def planted() -> list[tuple[str, str, str]]:
    """Return (kind, text with the secret in it, the secret), one for each form."""
    found = []
    for number, (kind, form, text) in enumerate(_FORMS):
        secret = _BLANK.sub(lambda match, seed=number: run(int(match[1]), f"{seed}/{match.start()}", match[2]), form)
        found.append((kind, text.replace("@", secret, 1), secret))
    for kind, line_end, text in _KEYS:
        body = [run(64, f"{kind}{n}") for n in range(20)]
        secret = line_end.join([f"-----BEGIN {kind}PRIVATE KEY-----", *body, f"-----END {kind}PRIVATE KEY-----"])
        found.append(("private-key", text.replace("@", secret), secret))
    return found
