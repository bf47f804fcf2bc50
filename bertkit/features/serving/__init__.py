"""``bertkit serve`` and ``bertkit demo``; see docs/guides/serving.md.

A checkpoint over HTTP, in the forms of Hugging Face's Inference API, of text-embeddings-inference and of OpenAI's
embeddings; and a page in the browser for it.
"""

from __future__ import annotations

PUBLIC = {"demo": "demo:demo", "serve": "server:serve"}
COMMANDS = {"demo": ("Use", "fill-mask"), "serve": ("Use", "demo")}
