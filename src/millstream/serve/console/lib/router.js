// Addresses of pages: #/page/part/part?name=value. The part behind # does not reach the server.

import { useEffect, useState } from "../vendor/hooks.js";

const decode = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not escaped properly: shown as it is
  }
};

/** Returns the page, the parts behind it, and the parameters of an address. */
export function parse(hash) {
  const [route, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...parts] = route.split("/").filter(Boolean).map(decode);
  return { page, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Returns the address of a page: href(["stores", application, store], { key }). */
export function href(parts = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Shows another page. With replace, the former one is not in the history. */
export function go(address, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", address);
    window.dispatchEvent(new Event("hashchange"));
  } else {
    location.hash = address;
  }
}

/** The current address, as `parse` returns it. */
export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return parse(hash);
}
