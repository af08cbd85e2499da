#pragma once

// rdma-core's public headers, and the attribute of exported functions.

#include <infiniband/umad.h>
#include <infiniband/umad_cm.h>
#include <infiniband/umad_sa.h>
#include <infiniband/umad_sm.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>

#define WEFT_EXPORT __attribute__((visibility("default")))
