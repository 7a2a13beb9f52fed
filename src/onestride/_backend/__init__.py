"""Where arrays live, where random numbers come from, and how much memory there is.

The only part that knows torch or CuPy exists. Draws are those of NumPy's generators, so one seed is the same data on every device.
"""

from onestride._backend.arrays import DeviceArray as DeviceArray
from onestride._backend.arrays import apply_special as apply_special
from onestride._backend.arrays import moved as moved
from onestride._backend.arrays import namespace as namespace
from onestride._backend.arrays import on_host as on_host
from onestride._backend.devices import HOST as HOST
from onestride._backend.devices import Backend as Backend
from onestride._backend.devices import choose as choose
from onestride._backend.devices import project as project
from onestride._backend.devices import require_device as require_device
from onestride._backend.devices import through_host as through_host
from onestride._backend.draws import draw_normals as draw_normals
from onestride._backend.draws import drawn_ahead as drawn_ahead
from onestride._backend.draws import normal_rows as normal_rows
from onestride._backend.memory import fits as fits
from onestride._backend.memory import require_memory as require_memory
from onestride._backend.normals import device_normals as device_normals
from onestride._backend.normals import draws_itself as draws_itself
from onestride._backend.streams import Role as Role
from onestride._backend.streams import prefetched as prefetched
from onestride._backend.streams import row_blocks as row_blocks
from onestride._backend.streams import stream as stream
from onestride._backend.tiles import map_tiles as map_tiles
