// The editor of SQL: a text field over a coloured copy of its text, with marks under mistakes, and completion.

import { api } from "../lib/api.js";
import { charactersBefore, marksOf, offsetOfCharacters, tokens } from "../lib/sql-text.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/ui.js";

const CHECK_MS = 350;
const COMPLETE_MS = 90;
const MOST_ITEMS = 60;

/** The mistakes of a text, as the server finds them a moment after the last change. */
export function useMistakes(text) {
  const [answer, setAnswer] = useState({ text: "", mistakes: [] });
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const { errors } = await api.post("sql/check", { text }, { signal: abort.signal });
        setAnswer({ text, mistakes: errors });
      } catch {
        // Without the route there are no marks; the answer of a statement has its mistakes.
      }
    }, CHECK_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return answer.text === text ? answer.mistakes : [];
}

/** Cuts the tokens of a text at marks and at the place of the completion. */
function segments(text, marks, place) {
  const cuts = [
    ...new Set([...marks.flatMap((mark) => [mark.start, mark.end]), ...(place === null ? [] : [place])]),
  ].sort((one, other) => one - other);
  const parts = [];
  for (const token of tokens(text)) {
    let start = token.start;
    for (const cut of cuts) {
      if (cut > start && cut < token.end) {
        parts.push({ kind: token.kind, start, end: cut });
        start = cut;
      }
    }
    parts.push({ kind: token.kind, start, end: token.end });
  }
  return parts;
}

function Copy({ text, marks, place, anchor }) {
  const parts = useMemo(() => segments(text, marks, place), [text, marks, place]);
  const isWrong = (part) => marks.some((mark) => part.start >= mark.start && part.end <= mark.end);
  const shown = parts.flatMap((part) => [
    part.start === place ? html`<i key="place" ref=${anchor} />` : null,
    html`<span key=${part.start} class=${`${part.kind}${isWrong(part) ? " wrong" : ""}`}>${text.slice(part.start, part.end)}</span>`,
  ]);
  const isAtEnd = marks.some((mark) => mark.start >= text.length);
  return html`<pre class="copy" aria-hidden="true">${shown}${place === text.length ? html`<i key="place" ref=${anchor} />` : null}${isAtEnd ? html`<span key="end" class="wrong"> </span>` : null}${"\n"}</pre>`;
}

function Completions({ items, chosen, at, accept }) {
  const list = useRef();
  useLayoutEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: "nearest" });
  }, [chosen, items]);
  return html`<ul class="completions" id="completions" role="listbox" aria-label="Completions" ref=${list} style=${{ left: `${at.left}px`, top: `${at.top}px` }}>
    ${items.map(
      (
        item,
        number,
      ) => html`<li key=${item.text} id=${`completion-${number}`} role="option" aria-selected=${number === chosen}
      onMouseDown=${(event) => {
        event.preventDefault();
        accept(item);
      }}><span>${item.text}</span><small>${item.kind}</small></li>`,
    )}
  </ul>`;
}

/** Completion of the word before the cursor: { popup, ask, close, choose, accept, chosenItem }. */
function useCompletion(field, text, setText) {
  const [popup, setPopup] = useState(null); // { items, start, caret, chosen, isChosen }
  const timer = useRef(null);
  const number = useRef(0);
  const close = () => {
    number.current++;
    clearTimeout(timer.current);
    setPopup(null);
  };
  useEffect(() => close, []);
  async function ask() {
    const mine = ++number.current;
    const { value, selectionStart: caret, selectionEnd } = field.current;
    if (caret !== selectionEnd) return;
    try {
      const answer = await api.post("sql/complete", { text: value, position: charactersBefore(value, caret) });
      if (mine !== number.current || field.current?.value !== value) return;
      const start = offsetOfCharacters(value, answer.start);
      const items = answer.items.slice(0, MOST_ITEMS);
      setPopup(items.length ? { items, start, caret, chosen: 0, isChosen: false } : null);
    } catch {
      setPopup(null); // without the route there is no completion
    }
  }
  function accept(item) {
    const { value } = field.current;
    const next = value.slice(0, popup.start) + item.text + value.slice(popup.caret);
    const caret = popup.start + item.text.length;
    close();
    setText(next);
    requestAnimationFrame(() => {
      field.current?.focus();
      // What was typed before this frame is behind the completed word, and so is the cursor.
      if (field.current?.value === next) field.current.setSelectionRange(caret, caret);
    });
  }
  return {
    popup: popup && popup.caret <= text.length ? popup : null,
    close,
    ask,
    soon: () => {
      number.current++;
      clearTimeout(timer.current);
      timer.current = setTimeout(ask, COMPLETE_MS);
    },
    move: (step) =>
      setPopup(
        (last) =>
          last && { ...last, chosen: (last.chosen + step + last.items.length) % last.items.length, isChosen: true },
      ),
    accept,
  };
}

/**
 * The editor.
 *
 * @param field a ref, which gets the text field.
 * @param mistakes of the text, as the server found them.
 * @param onRun called at Ctrl-Enter.
 * @param onHistory called with 1 or -1 at Ctrl-Up and Ctrl-Down: an older, or a newer text.
 */
export function SqlEditor({ text, setText, field, mistakes, onRun, onHistory }) {
  const box = useRef();
  const anchor = useRef();
  const [at, setAt] = useState({ left: 0, top: 0 });
  const completion = useCompletion(field, text, setText);
  const { popup } = completion;
  const marks = useMemo(() => marksOf(text, mistakes), [text, mistakes]);
  const place = popup?.start ?? null;
  useLayoutEffect(() => {
    if (place === null || !anchor.current) return;
    const outer = box.current.getBoundingClientRect();
    const inner = anchor.current.getBoundingClientRect();
    setAt({
      left: Math.max(0, Math.min(inner.left - outer.left, outer.width - 260)),
      top: inner.bottom - outer.top + 4,
    });
  }, [place, text]);

  function pressed(event) {
    const isControl = event.ctrlKey || event.metaKey;
    const done = (act) => {
      event.preventDefault();
      act();
    };
    if (isControl && event.key === "Enter") {
      completion.close();
      done(onRun);
    } else if (isControl && event.key === " ") done(completion.ask);
    else if (isControl && (event.key === "ArrowUp" || event.key === "ArrowDown"))
      done(() => onHistory(event.key === "ArrowUp" ? 1 : -1));
    else if (!popup) return;
    else if (event.key === "Escape") done(completion.close);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp")
      done(() => completion.move(event.key === "ArrowDown" ? 1 : -1));
    else if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && popup.isChosen))
      done(() => completion.accept(popup.items[popup.chosen]));
    else if (["ArrowLeft", "ArrowRight", "Home", "End", "Enter"].includes(event.key)) completion.close();
  }
  function typed(event) {
    setText(event.target.value);
    const { value, selectionStart } = event.target;
    if (/[\w`']/.test(value[selectionStart - 1] ?? "")) completion.soon();
    else completion.close();
  }
  return html`<div class="editor" ref=${box}>
    <div class="sheet">
      <${Copy} text=${text} marks=${marks} place=${place} anchor=${anchor} />
      <textarea ref=${field} data-search aria-label="SQL" aria-autocomplete="list" aria-controls=${popup ? "completions" : null} aria-expanded=${popup !== null}
        aria-activedescendant=${popup?.isChosen ? `completion-${popup.chosen}` : null} aria-invalid=${mistakes.length > 0} spellcheck="false" autocapitalize="off" autocomplete="off"
        placeholder="SELECT * FROM … EMIT CHANGES;" value=${text} onInput=${typed} onKeyDown=${pressed} onBlur=${completion.close} onClick=${completion.close} />
    </div>
    ${popup && html`<${Completions} items=${popup.items} chosen=${popup.isChosen ? popup.chosen : -1} at=${at} accept=${completion.accept} />`}
  </div>`;
}

/** The mistakes in words, each a button that goes to its place. */
export function Mistakes({ text, mistakes, field }) {
  if (!mistakes.length) return null;
  const show = (mark) => {
    field.current?.focus();
    field.current?.setSelectionRange(mark.start, mark.end);
  };
  return html`<ul class="mistakes" aria-label="Mistakes">${marksOf(text, mistakes).map(
    (
      mark,
    ) => html`<li><button class="plain" onClick=${() => show(mark)}><code>${mark.mistake.line}:${mark.mistake.column}</code>
      <span>${mark.mistake.message}${mark.mistake.hint && html` <small>${mark.mistake.hint}</small>`}</span></button></li>`,
  )}</ul>`;
}
