// The proof that an event is in the log, checked by this browser alone: RFC 9162 inclusion, and a
// C2SP checkpoint under an Ed25519 key. Any doubt is a no; what is not there is said to be missing.

import { visible } from "./visible.js";

const HEADER = "c2sp.org/tlog-proof@v1";
const ED25519 = 1;
const section = document.querySelector("#prove");
const button = document.querySelector("#check");
const steps = document.querySelector("#steps");
const verdict = document.querySelector("#verdict");

class Wrong extends Error {}

function hex(bytes) {
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}

function base64(text) {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text)) throw new Wrong(`“${text.slice(0, 40)}” is not base64.`);
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

function joined(...parts) {
  const made = new Uint8Array(parts.reduce((sum, each) => sum + each.length, 0));
  let at = 0;
  for (const part of parts) { made.set(part, at); at += part.length; }
  return made;
}

function same(left, right) {
  return left.length === right.length && left.every((each, index) => each === right[index]);
}

async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
}

const utf8 = (text) => new TextEncoder().encode(text);

function step(good, text, code = "") {
  const made = document.createElement("li");
  made.className = good ? "yes" : "no";
  made.append(visible(text));
  if (code) {
    const shown = document.createElement("code");
    shown.textContent = visible(code);
    made.append(" ", shown);
  }
  steps.append(made);
}

function number(text, what) {
  if (!/^(?:0|[1-9][0-9]{0,15})$/.test(text) || !Number.isSafeInteger(Number(text))) throw new Wrong(`The ${what} is no number.`);
  return Number(text);
}

function parseProof(text) {
  const cut = text.indexOf("\n\n");
  if (cut < 0) throw new Wrong("The proof has no checkpoint.");
  const lines = text.slice(0, cut).split("\n");
  if (lines.shift() !== HEADER) throw new Wrong(`The proof is not of ${HEADER}.`);
  if (lines[0]?.startsWith("extra ")) lines.shift();
  const index = lines.shift() ?? "";
  if (!index.startsWith("index ")) throw new Wrong("The proof names no index.");
  const path = lines.map(base64);
  if (path.some((each) => each.length !== 32)) throw new Wrong("A hash of the path has not 32 bytes.");
  return { index: number(index.slice(6), "index"), path, checkpoint: text.slice(cut + 2) };
}

function parseCheckpoint(note) {
  const cut = note.lastIndexOf("\n\n");
  if (cut < 0 || !note.endsWith("\n")) throw new Wrong("The checkpoint is not a signed note.");
  const text = note.slice(0, cut + 1);
  const [origin, size, root, ...rest] = text.slice(0, -1).split("\n");
  if (root === undefined || rest.length) throw new Wrong("The checkpoint has not three lines.");
  const signatures = note.slice(cut + 2, -1).split("\n").map((line) => {
    const [dash, name, signature, ...more] = line.split(" ");
    if (dash !== "\u2014" || !signature || more.length) throw new Wrong("A signature line is malformed.");
    return { name, bytes: base64(signature) };
  });
  return { text, origin, size: number(size, "size"), root: base64(root), signatures };
}

async function parseKey(text) {
  const [name, hash, encoded] = [text.slice(0, text.indexOf("+")), ...text.slice(text.indexOf("+") + 1).split(/\+(.*)/s)];
  const raw = base64((encoded ?? "").trim());
  if (raw[0] !== ED25519 || raw.length !== 33) throw new Wrong("The key is no Ed25519 verifier key (name+hash+key).");
  const id = (await sha256(utf8(`${name}\n`), raw)).slice(0, 4);
  if (hex(id) !== hash) throw new Wrong("The key’s hash is not that of its name and bytes.");
  const key = await crypto.subtle.importKey("raw", raw.slice(1), { name: "Ed25519" }, false, ["verify"]);
  return { name, id, key };
}

// RFC 9162 §2.1.3.2
async function rootFrom(leaf, index, size, path) {
  if (index >= size) throw new Wrong("The index is not in a tree of that size.");
  let [node, last, result] = [index, size - 1, leaf];
  for (const each of path) {
    if (last === 0) throw new Wrong("The path is too long.");
    if (node % 2 === 1 || node === last) {
      result = await sha256([1], each, result);
      while (node !== 0 && node % 2 === 0) { node /= 2; last = Math.floor(last / 2); }
    } else {
      result = await sha256([1], result, each);
    }
    node = Math.floor(node / 2);
    last = Math.floor(last / 2);
  }
  if (last !== 0) throw new Wrong("The path is too short.");
  return result;
}

async function fetched(url, what) {
  const answer = await fetch(url, { credentials: "same-origin", cache: "no-store" });
  if (!answer.ok) throw new Wrong(`${what} could not be fetched: HTTP ${answer.status}.`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function signed(checkpoint, texts) {
  for (const text of texts) {
    const key = await parseKey(text);
    if (key.name !== checkpoint.origin) continue;
    for (const { name, bytes } of checkpoint.signatures) {
      if (name !== key.name || !same(bytes.slice(0, 4), key.id)) continue;
      if (!(await crypto.subtle.verify({ name: "Ed25519" }, key.key, bytes.slice(4), utf8(checkpoint.text)))) throw new Wrong("The signature by this key is false.");
      return hex(key.id);
    }
  }
  throw new Wrong(`None of the given keys signed it as “${checkpoint.origin}”.`);
}

async function check() {
  const position = Number(section.dataset.position);
  const bytes = await fetched(section.dataset.event, "The event");
  const leaf = await sha256([0], bytes);
  step(true, `${bytes.length.toLocaleString("en")} bytes fetched; their leaf hash is`, hex(leaf));
  let envelope;
  try { envelope = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)); } catch { throw new Wrong("The bytes are no event."); }
  if (envelope.position !== position) throw new Wrong(`The bytes are of position ${envelope.position}, not of ${position}.`);
  const proof = parseProof(new TextDecoder().decode(await fetched(section.dataset.proof, "The proof")));
  if (proof.index !== position) throw new Wrong(`The proof is of position ${proof.index}, not of ${position}.`);
  const checkpoint = parseCheckpoint(proof.checkpoint);
  const root = await rootFrom(leaf, position, checkpoint.size, proof.path);
  step(true, `${proof.path.length} hashes lead from leaf ${position} to the root of a tree of ${checkpoint.size.toLocaleString("en")} events:`, hex(root));
  if (!same(root, checkpoint.root)) throw new Wrong(`The checkpoint’s root is another one: ${hex(checkpoint.root)}. Bytes, path or checkpoint were changed.`);
  step(true, "That is the root in the checkpoint of", checkpoint.origin);
  const keys = [...section.querySelectorAll(".vkey")].map((each) => each.value.trim()).filter(Boolean);
  const id = await signed(checkpoint, keys);
  step(true, "The checkpoint is signed by the key", id);
}

button.addEventListener("click", async () => {
  steps.replaceChildren();
  verdict.textContent = "";
  button.disabled = true;
  try {
    await check();
    verdict.className = "yes";
    verdict.textContent = "Yes: these bytes are in the log under that checkpoint.";
  } catch (error) {
    const missing = error.name === "NotSupportedError" || error.name === "SyntaxError";
    step(false, missing ? "This browser’s WebCrypto has no Ed25519." : error.message);
    verdict.className = "no";
    verdict.textContent = missing ? "Not checked here. Use the command below." : "No: this proves nothing. Do not rely on this event.";
  }
  button.disabled = false;
});

if (globalThis.crypto?.subtle) {
  button.hidden = false;
} else {
  verdict.className = "no";
  verdict.textContent = "This browser gives WebCrypto to pages over HTTPS or on localhost only. Use the command below.";
}
