"""``bertkit serve``: a checkpoint over HTTP, in the forms of Hugging Face's Inference API, of text-embeddings-inference
and of OpenAI's embeddings; ``bertkit demo``: a page in the browser for it."""
