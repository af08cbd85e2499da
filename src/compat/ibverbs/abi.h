#pragma once

// rdma-core's public header with its inline wrappers renamed: here their names are the exported
// functions.

#include <infiniband/verbs.h>

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define WEFT_EXPORT __attribute__((visibility("default")))
