// Marks what is not of the problem that is asked for.

const PALE = 100; // ms after which numbers on their way are marked
const byId = (id) => document.getElementById(id);

// Numbers of a moment ago are pale once that moment is long enough to be seen: most answers come before, and nothing is restyled.
const waiting = {};
export function stale(id, is) {
  if (is === id in waiting) return;
  const mark = () => {
    byId(id).classList.toggle("stale", is);
    byId(id).setAttribute("aria-busy", String(is));
  };
  if (is) waiting[id] = setTimeout(mark, PALE);
  else {
    clearTimeout(waiting[id]);
    delete waiting[id];
    mark();
  }
}
