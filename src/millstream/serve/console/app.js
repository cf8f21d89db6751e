// The console: signs in, and shows the page of the address.

import { api } from "./lib/api.js";
import { useStreamState } from "./lib/data.js";
import { listen } from "./lib/keyboard.js";
import { href, useRoute } from "./lib/router.js";
import {
  Dialog,
  Head,
  Loading,
  Panel,
  Problem,
  User,
  html,
  render,
  useContext,
  useEffect,
  useRef,
  useState,
} from "./lib/ui.js";

/** The pages: `pages/NAME.js` exports each as its default. `key` is the letter behind g. */
const PAGES = [
  { page: "", name: "overview", title: "Overview", key: "o" },
  { page: "applications", name: "application", title: "Applications", key: "a" },
  { page: "stores", name: "stores", title: "Stores", key: "s" },
  { page: "topics", name: "topics", title: "Topics", key: "t" },
  { page: "sql", name: "sql", title: "SQL", key: "q" },
  { page: "dead-letters", name: "dead-letters", title: "Dead letters", key: "d" },
];

const KEYS = [
  ["/", "search"],
  ["j, k", "next and previous row"],
  ["Enter", "open the row"],
  ["Esc", "close"],
  ["?", "this help"],
];

const THEMES = { auto: "as the system", light: "light", dark: "dark" };

/** Takes the one-time code out of the address, so that neither the history nor a bookmark has it. */
function takeCode() {
  const match = /^#code=([\w-]+)$/.exec(location.hash);
  if (match) history.replaceState(null, "", location.pathname + "#/");
  return match?.[1] ?? null;
}

async function signIn(code) {
  if (code) {
    try {
      return await api.post("session", { code });
    } catch (error) {
      if (error.status !== 401) throw error; // a used code: there may be a session of before
    }
  }
  return api.get("session");
}

function SignIn({ onUser, error: before }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState(before);
  async function submit(event) {
    event.preventDefault();
    try {
      onUser(await api.post("session", { token: token.trim() }));
    } catch (problem) {
      setError(problem);
    }
  }
  return html`<main class="sign-in"><form class="panel" onSubmit=${submit}>
    <h1><img src="icon.svg" alt="" width="28" height="28" />Millstream</h1>
    <p>The address that the server printed in its terminal opens the console once. Or enter a token:</p>
    <label>Token<input type="password" autocomplete="current-password" autofocus required value=${token}
      onInput=${(event) => setToken(event.target.value)} /></label>
    <button class="primary">Sign in</button>
    ${error && html`<${Problem} error=${error} />`}
    <p class="hint">An admin creates tokens with <code>millstream tokens create NAME --role viewer</code></p>
  </form></main>`;
}

function ThemeSwitch() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  function choose() {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(theme) + 1) % names.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("millstream.theme", next);
    } catch {
      // The browser keeps no data for this page: the choice ends with the tab.
    }
    setTheme(next);
    window.dispatchEvent(new Event("millstream:theme"));
  }
  const icon = { auto: "◐", light: "☀", dark: "☾" }[theme];
  return html`<button class="plain" onClick=${choose} title=${`Colours: ${THEMES[theme]}`} aria-label="Colours">${icon}</button>`;
}

const STREAM = {
  live: ["good", "Live: the server sends changes as they happen"],
  polling: ["warn", "The page asks the server every few seconds, because there is no stream of events"],
  connecting: ["busy", "Connecting"],
  idle: ["calm", "The page needs no events"],
};

function Bar({ page, onHelp, onSignOut }) {
  const user = useContext(User);
  const pages = useRef();
  useEffect(() => {
    pages.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone
  }, [page]);
  const [tone, title] = STREAM[useStreamState()];
  return html`<header class="bar">
    <a class="brand" href="#/"><img src="icon.svg" alt="" width="22" height="22" /><span>Millstream</span></a>
    <nav aria-label="Pages" ref=${pages}>
      ${PAGES.map(
        (each) => html`<a href=${href(each.page ? [each.page] : [])} aria-current=${each.page === page ? "page" : null}
          title=${`g ${each.key}`}>${each.title}</a>`,
      )}
    </nav>
    <div class="tools">
      <span class=${`stream ${tone}`} title=${title} role="status" aria-label=${title}></span>
      <${ThemeSwitch} />
      <button class="plain" onClick=${onHelp} title="Keys (?)" aria-label="Keys">?</button>
      <button class="plain user" title=${user.auth ? `${user.name} (${user.role}): sign out` : "there are no tokens"}
        disabled=${!user.auth} onClick=${onSignOut}>${user.role}</button>
    </div>
  </header>`;
}

const Help = ({ onClose }) => html`<${Dialog} title="Keys" onClose=${onClose}>
  <dl class="keys">
    ${PAGES.map((each) => html`<div><dt><kbd>g</kbd> <kbd>${each.key}</kbd></dt><dd>${each.title}</dd></div>`)}
    ${KEYS.map(([key, meaning]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}
  </dl>
<//>`;

/** Loads the module of a page when it is first shown. */
function Page({ route }) {
  const page = PAGES.find((each) => each.page === route.page);
  const [shown, setShown] = useState({ name: null, component: null, error: null });
  useEffect(() => {
    if (!page) return;
    import(`./pages/${page.name}.js`).then(
      (module) => setShown({ name: page.name, component: module.default, error: null }),
      () =>
        setShown({
          name: page.name,
          component: null,
          error: { message: "the page could not be loaded", hint: "reload it" },
        }),
    );
  }, [page]);
  if (!page) return html`<${Head} title="There is no such page" /><${Panel}><p><a href="#/">Overview</a></p><//>`;
  if (shown.name !== page.name) return html`<${Loading} />`;
  if (shown.error) return html`<${Problem} error=${shown.error} />`;
  return html`<${shown.component} parts=${route.parts} query=${route.query} />`;
}

function Console({ code }) {
  const [user, setUser] = useState(null);
  const [error, setError] = useState(null);
  const [isSignedOut, setSignedOut] = useState(false);
  const [hasHelp, setHelp] = useState(false);
  const route = useRoute();

  useEffect(() => {
    const entered = (problem) => (problem.status === 401 ? setSignedOut(true) : setError(problem));
    signIn(code).then(setUser, entered);
    const left = () => setSignedOut(true);
    const pasted = () => {
      const next = takeCode(); // the address of another start of the server, in the same tab
      if (next) signIn(next).then(welcome, entered);
    };
    window.addEventListener("millstream:signed-out", left);
    window.addEventListener("hashchange", pasted);
    return () => {
      window.removeEventListener("millstream:signed-out", left);
      window.removeEventListener("hashchange", pasted);
    };
  }, []);
  useEffect(() => listen(PAGES, () => setHelp(true)), []);

  function welcome(next) {
    setUser(next);
    setSignedOut(false);
  }
  async function signOut() {
    await api.delete("session").catch(() => null);
    setSignedOut(true);
  }

  if (isSignedOut) return html`<${SignIn} onUser=${welcome} />`;
  if (error) return html`<main class="sign-in"><${Problem} error=${error} retry=${() => location.reload()} /></main>`;
  if (!user) return html`<main><${Loading} /></main>`;
  return html`<${User.Provider} value=${user}>
    <${Bar} page=${route.page} onHelp=${() => setHelp(true)} onSignOut=${signOut} />
    <main key=${`${route.page}/${route.parts.join("/")}`}><${Page} route=${route} /></main>
    ${hasHelp && html`<${Help} onClose=${() => setHelp(false)} />`}
  <//>`;
}

render(html`<${Console} code=${takeCode()} />`, document.getElementById("root"));
