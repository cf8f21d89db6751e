"""Strings that would do something in a page that takes data for HTML, for a script, or for an address."""

from __future__ import annotations

CALL = "window.hacked=1"

_TAGS = (
    f"<script>{CALL}</script>",
    f"<SCRIPT>{CALL}</SCRIPT>",
    f"</script><script>{CALL}</script>",
    f"<scr<script>ipt>{CALL}</scr</script>ipt>",
    "<script src=//127.0.0.1:1/x.js></script>",
    f"<script type=module>{CALL}</script>",
    f"<img src=x onerror={CALL}>",
    f'<img src="x" onerror="{CALL}">',
    f"<img/src=x/onerror={CALL}>",
    f"<image href=x onerror={CALL}>",
    f"<svg onload={CALL}>",
    f"<svg><script>{CALL}</script></svg>",
    f"<svg><animate onbegin={CALL} attributeName=x dur=1s>",
    f"<svg><a xlink:href='javascript:{CALL}'><text y=9>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x onload=window.hacked=1>#x'/></svg>",
    f"<math><mtext></mtext><mglyph><style><img src=x onerror={CALL}></style></math>",
    f"<body onload={CALL}>",
    f"<iframe src=javascript:{CALL}></iframe>",
    f"<iframe srcdoc='<script>parent.{CALL}</script>'></iframe>",
    f"<object data=javascript:{CALL}></object>",
    f"<embed src=javascript:{CALL}>",
    f"<video><source onerror={CALL}></video>",
    f"<audio src=x onerror={CALL}>",
    f"<details open ontoggle={CALL}>",
    f"<input autofocus onfocus={CALL}>",
    f"<select autofocus onfocus={CALL}>",
    f"<textarea autofocus onfocus={CALL}>",
    f"<marquee onstart={CALL}>",
    f"<a href=javascript:{CALL}>x</a>",
    f"<a href='java\tscript:{CALL}'>x</a>",
    f"<form action=javascript:{CALL}><button>x</button></form>",
    "<base href=//127.0.0.1:1/>",
    f"<meta http-equiv=refresh content='0;url=javascript:{CALL}'>",
    "<link rel=stylesheet href=//127.0.0.1:1/x.css>",
    "<style>*{display:none}</style>",
    "<style>@import '//127.0.0.1:1/x.css';</style>",
    f"<div style='background:url(javascript:{CALL})'>x</div>",
    "<div style=position:fixed;inset:0;z-index:99>x</div>",
    f"<template><script>{CALL}</script></template>",
    f"<noscript><p title='</noscript><img src=x onerror={CALL}>'></noscript>",
    f"<title></title><script>{CALL}</script>",
    f"<!--><script>{CALL}</script>-->",
    f"<![CDATA[<script>{CALL}</script>]]>",
    f"<?xml version='1.0'?><script>{CALL}</script>",
    "<dialog open>x</dialog>",
    "<main id=root></main>",
)

_ATTRIBUTES = (
    f'" onmouseover="{CALL}',
    f"' onmouseover='{CALL}",
    f'"><img src=x onerror={CALL}>',
    f"'><img src=x onerror={CALL}>",
    f'" autofocus onfocus="{CALL}" x="',
    f"` onmouseover={CALL} `",
    f"x onerror={CALL}",
    f'"/><script>{CALL}</script><x y="',
)

_ADDRESSES = (
    f"javascript:{CALL}",
    f"JaVaScRiPt:{CALL}",
    f" javascript:{CALL}",
    f"java\nscript:{CALL}",
    f"javascript://x%0a{CALL}",
    f"data:text/html,<script>{CALL}</script>",
    f"vbscript:{CALL}",
    "//127.0.0.1:1/x",
    "../../../../etc/passwd",
    "#/applications/../../x",
    "?format=<b>",
    "%3Cscript%3Ewindow.hacked=1%3C/script%3E",
)

_CODE = (
    f"${{{CALL}}}",
    f"`+({CALL})+`",
    f"{{{{constructor.constructor('{CALL}')()}}}}",
    "{{7*7}}",
    "__proto__",
    "constructor",
    '{"__proto__":{"hacked":1}}',
    f"');{CALL};('",
    f"\\u003cscript\\u003e{CALL}\\u003c/script\\u003e",
    f"&lt;script&gt;{CALL}&lt;/script&gt;",
    f"&#60;script&#62;{CALL}&#60;/script&#62;",
)

_CHARACTERS = (
    f"\u202e<script>{CALL}</script>",  # right to left
    f"\ufeff<img src=x onerror={CALL}>",
    f"a\u0000<img src=x onerror={CALL}>",
    f"line\u2028{CALL}",
    f"\uff1cscript\uff1e{CALL}\uff1c/script\uff1e",
    "\u001b[31mred\u001b[0m",
    "Z\u0300\u0301\u0302\u0303" * 20,
    "w" * 5000,
)

STRINGS = (*_TAGS, *_ATTRIBUTES, *_ADDRESSES, *_CODE, *_CHARACTERS)

IS_SAFE = """() => {
  const problems = [];
  if (window.hacked || ({}).hacked) problems.push("a script has run");
  const active = "script, iframe, object, embed, base, meta, link, style, video, audio, [action], animate, use";
  for (const element of document.body.querySelectorAll(active)) problems.push(`an element ${element.tagName}`);
  for (const element of document.querySelectorAll("body *")) {
    const name = element.tagName.toUpperCase();
    for (const { name: attribute, value } of element.attributes) {
      if (attribute.startsWith("on")) problems.push(`${name} ${attribute}`);
      if (attribute === "href" && !value.startsWith("#/")) problems.push(`${name} href ${value}`);
      if (attribute === "src" && value !== "icon.svg") problems.push(`${name} src ${value}`);
    }
  }
  return problems;
}"""
"""Returns what a page has that none of its own parts is: an empty list."""
