#pragma once

// rdma-core's public headers, and the attribute of exported functions.

#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#define WEFT_EXPORT __attribute__((visibility("default")))
