// Talking to the server: answers, sentences when something is wrong, and never more than one question at a time.

export class Refused extends Error {
  constructor(words, status = 0) {
    super(words);
    this.wrong = status === 400; // what was asked is no problem
    this.unanswered = status === 0 || status >= 500; // nothing is known of what was asked
  }
}

// Given up, an answer is none, also where only its body was missing; cut off, it is as good as none.
function unanswered(error) {
  if (error.name === "AbortError") throw error;
  throw new Refused("the server does not answer; start it again with: onestride explore");
}

export async function ask(path, { query = null, signal, ...options } = {}) {
  const address = query ? `${path}?${new URLSearchParams(query)}` : path;
  const response = await fetch(address, { signal, ...options }).catch(unanswered);
  const data = await response.json().catch((error) => (error instanceof SyntaxError ? null : unanswered(error)));
  if (signal?.aborted) throw new DOMException("given up", "AbortError"); // whatever has come of it
  if (!response.ok || data === null) throw new Refused(data?.error ?? `the server answered ${response.status}`, response.status);
  return data;
}

export const post = (path, data) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data) });

// At most one call in flight; of those asked meanwhile only the latest is made.
export function latest(call) {
  let next = null;
  let busy = false;
  return async function request(argument) {
    next = { argument };
    if (busy) return;
    busy = true;
    try {
      while (next) {
        const { argument: current } = next;
        next = null;
        await call(current);
      }
    } finally {
      busy = false;
      if (next) request(next.argument); // a mistake in one call does not silence the one asked meanwhile
    }
  };
}
