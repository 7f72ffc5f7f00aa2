"""Writes every file that follows from others."""

from deploy.builder.files import generated

for path, text in generated().items():
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(path)
