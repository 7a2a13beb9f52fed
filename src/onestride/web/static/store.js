// The store: pick axes, see theory against simulation.
export class StoreView {
  constructor(open) {
    this.open = open;
  }
  toggle() {}
}
