"""Made-up secrets of the kinds that have a shape; none of them opens anything."""

import hashlib
import string

_LETTERS = string.ascii_letters + string.digits


def run(size: int, seed: str, alphabet: str = _LETTERS) -> str:
    """Return so many characters of an alphabet, the same for the same seed, with letters and digits among them."""
    data = b"".join(hashlib.sha256(f"{seed}{n}".encode()).digest() for n in range(size // 32 + 1))
    mixed = "".join(alphabet[byte % len(alphabet)] for byte in data[:size])
    return "a1" + mixed[2:] if alphabet == _LETTERS else mixed


def _pem(kind: str, seed: str, line_end: str = "\n") -> str:
    body = [run(64, f"{seed}{n}") for n in range(20)]
    return line_end.join([f"-----BEGIN {kind}PRIVATE KEY-----", *body, f"-----END {kind}PRIVATE KEY-----"])


def planted(seed: str = "") -> list[tuple[str, str, str]]:
    """Return (kind, text with the secret in it, the secret), one for each form."""

    def some(size: int, alphabet: str = _LETTERS) -> str:
        return run(size, f"{seed}{len(found)}", alphabet)

    found: list[tuple[str, str, str]] = []

    def add(kind: str, secret: str, text: str = "it is {} indeed") -> None:
        found.append((kind, text.replace("{}", secret), secret))

    upper, hexes = string.ascii_uppercase + "234567", "0123456789abcdef"
    add("aws-access-key", "AKIA" + some(16, upper))
    add("aws-access-key", "ASIA" + some(16, upper), "AWS_ACCESS_KEY_ID={}")
    add("aws-secret-key", some(40), "aws_secret_access_key = {}")
    add("aws-secret-key", some(40), '{"SecretAccessKey": "{}"}')
    for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"):
        add("github-token", prefix + some(36))
    add("github-token", "github_pat_" + some(22) + "_" + some(59), "git clone https://x:{}@git.example.org/a/b")
    add("gitlab-token", "glpat-" + some(20), "--header 'PRIVATE-TOKEN: {}'")
    add("openai-key", "sk-" + some(48), "OPENAI_API_KEY={}")
    add("openai-key", "sk-proj-" + some(60) + "-" + some(60))
    add("openai-key", "sk-svcacct-" + some(60))
    add("anthropic-key", "sk-ant-api03-" + some(80) + "-" + some(10) + "AA", "key: {}")
    add("google-key", "AIza" + some(35), "https://maps.example.org/?key={}&q=a")
    add("google-key", "GOCSPX-" + some(28))
    add("google-key", "ya29." + some(80))
    add("slack-token", "xoxb-123456789012-" + some(24))
    add("slack-token", "xapp-1-A0123-" + some(40))
    add("webhook", "T0123ABCD/B0123ABCD/" + some(24), "https://hooks.slack.com/services/{}")
    add("stripe-key", "sk_live_" + some(24))
    add("stripe-key", "rk_test_" + some(24))
    add("stripe-key", "whsec_" + some(32))
    add("npm-token", "npm_" + some(36), "//registry.npmjs.org/:_authToken={}")
    add("pypi-token", "pypi-AgEIcHlwaS5vcmc" + some(70))
    add("huggingface-token", "hf_" + some(34))
    add("sendgrid-key", f"SG.{some(22)}.{some(43)}x")
    add("digitalocean-token", "dop_v1_" + some(64, hexes))
    add("shopify-token", "shpat_" + some(32, hexes))
    add("vault-token", "hvs." + some(90))
    add("docker-token", "dckr_pat_" + some(27))
    add("groq-key", "gsk_" + some(52))
    add("web-token", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIi{some(300)}.{some(43)}", "Cookie: session={}; path=/")
    add("web-token", f"eyJhbGciOiJSUzI1NiJ9.eyJzdWIi{some(60)}.{some(342)}", "Authorization: Bearer {}")
    add("private-key", _pem("RSA ", seed))
    add("private-key", _pem("OPENSSH ", seed + "o"), "cat ~/.ssh/id_ed25519\n{}\n$")
    add("private-key", _pem("", seed + "j", "\\n"), '{"private_key": "{}\\n"}')
    add("private-key", _pem("EC ", seed + "w", "\r\n"))
    add("authorization", some(40), "authorization: bearer {}")
    add("authorization", some(40) + "==", '"Authorization": "Basic {}"')
    add("azure-key", some(86) + "==", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=b")
    add("azure-key", some(43) + "=", "Endpoint=sb://a/;SharedAccessKeyName=b;SharedAccessKey={}")
    add("azure-key", some(20) + "%2B" + some(20) + "%3D", "https://a.blob.example.org/c?sv=2022-11-02&sig={}&se=x")
    add("url-password", some(12), "postgresql://app:{}@db.internal:5432/main")
    add("url-password", some(12), "REDIS_URL=redis://:{}@cache:6379/0")
    add("password", some(14), "DB_PASSWORD={}")
    add("password", "Tr4v3l&" + some(6), '{"user": "ada", "password": "{}"}')
    add("password", some(10), "Server=tcp:a;Database=b;User ID=c;Password={};Encrypt=True")
    add("password", some(10), '{"arguments": "{\\"passwd\\": \\"{}\\"}"}')
    add("token", some(32), "X-Api-Key: {}")
    add("token", some(32), "client_secret={}&grant_type=b")
    add("token", some(24), "export SLACK_SIGNING_SECRET='{}'")
    add("token", some(24), "  access_token: {}\n  expires: 3600")
    return found
