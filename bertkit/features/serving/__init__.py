"""``bertkit serve``: a checkpoint over HTTP, in the forms of Hugging Face's Inference API, of text-embeddings-inference
and of OpenAI's embeddings; ``bertkit demo``: a page in the browser for it."""

from __future__ import annotations

COMMANDS = {"demo": ("Use", "fill-mask"), "serve": ("Use", "demo")}

PUBLIC = {"demo": "demo:demo", "serve": "server:serve"}
