// The PTO tile API on the virtual device: the subset that docs/pto-host.md lists, written from the public
// ISA documentation. Types and shapes are here; what an instruction does is in Rust, behind device.hpp.
#pragma once

#include "pto/host/types.hpp"

#include "pto/host/device.hpp"

#include "pto/host/tile.hpp"

#include "pto/host/global.hpp"

#include "pto/host/instructions.hpp"

#include "pto/host/sync.hpp"

#include "pto/comm/pto_comm_inst.hpp"
