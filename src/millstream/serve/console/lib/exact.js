// JSON whose integers keep all of their digits.

/** Parses JSON. An integer that JavaScript's numbers cannot hold stays its text, and is written as it was. */
export function parseExact(text) {
  if (typeof JSON.rawJSON !== "function") return JSON.parse(text);
  return JSON.parse(text, (_name, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? JSON.rawJSON(context.source)
      : value,
  );
}
