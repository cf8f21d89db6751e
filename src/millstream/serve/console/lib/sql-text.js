// The text of SQL: its tokens, its statements, and places in it.

const KEYWORDS = new Set(
  `ADD ADVANCE ALL ALTER AND ARRAY AS ASSERT AT BEGINNING BETWEEN BY CASE CAST CHANGES COLUMN COLUMNS CREATE DATE DAY DAYS
  DECIMAL DEFINE DELETE DESCRIBE DROP ELSE EMIT END ESCAPE EXISTS EXPLAIN EXTENDED FALSE FINAL FROM FULL FUNCTION FUNCTIONS
  GRACE GROUP HAVING HEADER HEADERS HOPPING HOUR HOURS ID IF IN INNER INSERT INTEGER INTERVAL INTO IS JOIN KEY LEFT LIKE
  LIMIT LIST MAP MILLISECOND MILLISECONDS MINUTE MINUTES MONTH NOT NULL ON OR OUTER PARTITION PARTITIONS PAUSE PERIOD
  PRIMARY PRINT PROPERTIES QUERIES QUERY REPLACE RESET RESUME RETENTION RIGHT SAMPLE SECOND SECONDS SELECT SESSION SET SHOW
  SIZE SOURCE STREAM STREAMS STRING STRUCT TABLE TABLES TERMINATE THEN TIME TIMESTAMP TOPIC TOPICS TRUE TUMBLING TYPE TYPES
  UNDEFINE UNSET VALUES VARIABLES VARCHAR WHEN WHERE WINDOW WITH WITHIN BIGINT BOOLEAN BYTES DOUBLE INT`.split(/\s+/),
);

const TOKEN =
  /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|([`"](?:[^`"]|``|"")*(?:[`"]|$))|([A-Za-z_][\w@]*)|(\d[\w.]*)|(;)|([\s\S])/g;
const KINDS = ["comment", "string", "quoted", "word", "number", "end", "other"];

/** The tokens of a text: { kind, start, end }. Together they are the whole text. */
export function tokens(text) {
  const list = [];
  for (const match of text.matchAll(TOKEN)) {
    let kind = KINDS[match.slice(1).findIndex((part) => part !== undefined)];
    if (kind === "word" && KEYWORDS.has(match[0].toUpperCase())) kind = "keyword";
    const last = list.at(-1);
    const end = match.index + match[0].length;
    if (last && kind === "other" && last.kind === "other") last.end = end;
    else list.push({ kind, start: match.index, end });
  }
  return list;
}

/** The statements of a text: { text, start, end }. The last one need not end with a semicolon. */
export function statementsOf(text) {
  const statements = [];
  let start = null;
  let end = 0;
  const close = (after) => {
    if (start !== null) statements.push({ text: text.slice(start, after), start, end: after });
    start = null;
  };
  for (const token of tokens(text)) {
    if (token.kind === "end") close(token.end);
    else if (token.kind !== "comment" && text.slice(token.start, token.end).trim()) {
      start ??= token.start + text.slice(token.start, token.end).search(/\S/);
      end = token.end;
    }
  }
  close(end);
  return statements.map((each) => (each.text.endsWith(";") ? each : { ...each, text: `${each.text.trimEnd()};` }));
}

/** The first words of a statement in capitals, without comments. */
export function firstWords(statement, number = 1) {
  return tokens(statement)
    .filter((token) => token.kind === "keyword" || token.kind === "word")
    .slice(0, number)
    .map((token) => statement.slice(token.start, token.end).toUpperCase())
    .join(" ");
}

const literal = (text) => text.slice(1, -1).replaceAll("''", "'");

/**
 * SET, UNSET, DEFINE and UNDEFINE change the session, which the page keeps: { action, name, value }; null for all other
 * statements.
 */
export function sessionChange(statement) {
  const match =
    /^(SET|DEFINE)\s+('(?:[^']|'')*'|\w+)\s*=\s*('(?:[^']|'')*')\s*;$/i.exec(statement) ??
    /^(UNSET|UNDEFINE)\s+('(?:[^']|'')*'|\w+)\s*;$/i.exec(statement);
  if (!match) return null;
  const [, action, name, value] = match;
  return {
    action: action.toUpperCase(),
    name: name.startsWith("'") ? literal(name) : name,
    value: value === undefined ? null : literal(value),
  };
}

/** The server counts characters, JavaScript counts UTF-16 units. */
export const charactersBefore = (text, offset) => [...text.slice(0, offset)].length;

/** The offset of a number of characters. */
export const offsetOfCharacters = (text, number) => [...text].slice(0, number).join("").length;

/** The offset of a line and a column, both from 1. */
export function offsetOfPlace(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(text.length, before + offsetOfCharacters(lines[line - 1] ?? "", column - 1));
}

/** The mistakes of the server as marks: { start, end, mistake }. */
export function marksOf(text, mistakes) {
  return mistakes
    .map((mistake) => {
      const start = offsetOfPlace(text, mistake.line, mistake.column);
      return {
        start,
        end: Math.min(text.length, start + offsetOfCharacters(text.slice(start), Math.max(1, mistake.length))),
        mistake,
      };
    })
    .sort((one, other) => one.start - other.start);
}
