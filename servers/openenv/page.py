"""``/docs``: a page that shows ``/openapi.json`` and lets one try it; it loads nothing from elsewhere."""

from __future__ import annotations

__all__ = ["PAGE", "PAGE_HEADERS"]

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Environment server</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem;
         color: #1a1a1a; background: #fff; }
  details { border: 1px solid #ccc; border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem; }
  summary { cursor: pointer; }
  code, pre, textarea { font: 13px/1.4 ui-monospace, monospace; }
  pre { background: #f4f4f4; color: #1a1a1a; padding: .5rem; overflow: auto; max-height: 24rem; }
  textarea { width: 100%; min-height: 6rem; box-sizing: border-box; }
  .method { display: inline-block; width: 4rem; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    body { color: #eee; background: #161616; } pre { background: #262626; color: #eee; }
    details { border-color: #555; }
  }
</style>
<h1 id="title">Environment server</h1>
<p id="about"></p>
<p><a href="openapi.json">openapi.json</a></p>
<main id="operations"></main>
<h2>Schemas</h2>
<section id="schemas"></section>
<script>
const make = (tag, text, parent) => {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
const pretty = (value) => JSON.stringify(value, null, 2);

const tryOut = (path, method, operation, box) => {
  const places = (operation.parameters || []).filter((place) => place.in === 'path');
  const inputs = places.map((place) => {
    const label = make('label', place.name + ' ', box);
    return [place.name, make('input', '', label)];
  });
  let body = null;
  if (operation.requestBody) {
    const label = make('label', 'Body', box);
    body = make('textarea', '', label);
    body.value = path === '/step' ? '{"action": {}}' : '{}';
  }
  const button = make('button', 'Send', box);
  const output = make('pre', '', box);
  output.hidden = true;
  button.onclick = async () => {
    let url = path.slice(1);
    for (const [name, input] of inputs) url = url.replace(`{${name}}`, encodeURIComponent(input.value));
    const options = { method: method.toUpperCase() };
    if (body) {
      options.body = body.value;
      options.headers = { 'content-type': 'application/json' };
    }
    output.hidden = false;
    try {
      const answer = await fetch(url, options);
      const text = await answer.text();
      let shown = text;
      try { shown = pretty(JSON.parse(text)); } catch { /* it is shown as it is */ }
      output.textContent = `${answer.status}\\n${shown}`;
    } catch (error) {
      output.textContent = String(error);
    }
  };
};

const show = (document_) => {
  document.title = document_.info.title;
  document.getElementById('title').textContent = document_.info.title;
  document.getElementById('about').textContent = document_.info.description;
  const list = document.getElementById('operations');
  for (const [path, item] of Object.entries(document_.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const box = make('details', '', list);
      const summary = make('summary', '', box);
      make('span', method.toUpperCase(), summary).className = 'method';
      make('code', path, summary);
      summary.append(' ' + operation.summary);
      tryOut(path, method, operation, box);
    }
  }
  const schemas = document.getElementById('schemas');
  for (const [name, schema] of Object.entries(document_.components.schemas)) {
    const box = make('details', '', schemas);
    make('summary', name, box);
    make('pre', pretty(schema), box);
  }
};

fetch('openapi.json').then((answer) => answer.json()).then((said) => {
  if (said.paths) show(said);
  else document.getElementById('about').textContent = said.message;
}).catch((error) => { document.getElementById('about').textContent = String(error); });
</script>
</html>
"""
