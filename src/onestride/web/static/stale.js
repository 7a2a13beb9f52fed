// Marks what is not of the problem that is asked for.

const PALE = 100; // ms after which numbers on their way are marked
const byId = (id) => document.getElementById(id);

// Numbers of a moment ago are pale once that moment is long enough to be seen: most answers come before, and nothing is restyled.
const known = {};
export function stale(id, is) {
  if (known[id]?.is === is) return;
  const mark = () => {
    byId(id).classList.toggle("stale", is);
    byId(id).setAttribute("aria-busy", String(is));
  };
  clearTimeout(known[id]?.timer);
  known[id] = { is, timer: is ? setTimeout(mark, PALE) : 0 };
  if (!is) mark(); // also what was never on its way: an answer may come before the first frame
}
