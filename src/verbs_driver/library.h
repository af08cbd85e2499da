#pragma once

// libibverbs and librdmacm as a program finds them when it runs: Weft's drop-in libraries under
// `weft exec`, the system's own elsewhere. Nothing is linked, so that the same binary runs on a
// simulated host, on Soft-RoCE and on hardware.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace weft::verbs_driver {

/// The functions of libibverbs.so.1 that are called by name; posting and polling go through the
/// context, as verbs.h has it.
struct VerbsLibrary {
  decltype(&::ibv_get_device_list) get_device_list{};
  decltype(&::ibv_free_device_list) free_device_list{};
  decltype(&::ibv_get_device_name) get_device_name{};
  decltype(&::ibv_get_device_guid) get_device_guid{};
  decltype(&::ibv_open_device) open_device{};
  decltype(&::ibv_close_device) close_device{};
  decltype(&::ibv_query_device) query_device{};
  decltype(&::ibv_query_gid) query_gid{};
  decltype(&::ibv_query_pkey) query_pkey{};
  decltype(&::ibv_get_async_event) get_async_event{};
  decltype(&::ibv_ack_async_event) ack_async_event{};
  decltype(&::ibv_alloc_pd) alloc_pd{};
  decltype(&::ibv_dealloc_pd) dealloc_pd{};
  decltype(&::ibv_reg_mr) reg_mr{};
  decltype(&::ibv_reg_mr_iova) reg_mr_iova{};
  decltype(&::ibv_dereg_mr) dereg_mr{};
  decltype(&::ibv_create_comp_channel) create_comp_channel{};
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel{};
  decltype(&::ibv_create_cq) create_cq{};
  decltype(&::ibv_resize_cq) resize_cq{};
  decltype(&::ibv_destroy_cq) destroy_cq{};
  decltype(&::ibv_get_cq_event) get_cq_event{};
  decltype(&::ibv_ack_cq_events) ack_cq_events{};
  decltype(&::ibv_create_srq) create_srq{};
  decltype(&::ibv_modify_srq) modify_srq{};
  decltype(&::ibv_query_srq) query_srq{};
  decltype(&::ibv_destroy_srq) destroy_srq{};
  decltype(&::ibv_create_qp) create_qp{};
  decltype(&::ibv_modify_qp) modify_qp{};
  decltype(&::ibv_query_qp) query_qp{};
  decltype(&::ibv_destroy_qp) destroy_qp{};
  decltype(&::ibv_create_ah) create_ah{};
  decltype(&::ibv_destroy_ah) destroy_ah{};
  decltype(&::ibv_attach_mcast) attach_mcast{};
  decltype(&::ibv_detach_mcast) detach_mcast{};
};

/// The same of librdmacm.so.1.
struct RdmaCmLibrary {
  decltype(&::rdma_create_event_channel) create_event_channel{};
  decltype(&::rdma_destroy_event_channel) destroy_event_channel{};
  decltype(&::rdma_create_id) create_id{};
  decltype(&::rdma_destroy_id) destroy_id{};
  decltype(&::rdma_bind_addr) bind_addr{};
  decltype(&::rdma_listen) listen{};
  decltype(&::rdma_resolve_addr) resolve_addr{};
  decltype(&::rdma_resolve_route) resolve_route{};
  decltype(&::rdma_connect) connect{};
  decltype(&::rdma_establish) establish{};
  decltype(&::rdma_accept) accept{};
  decltype(&::rdma_reject) reject{};
  decltype(&::rdma_disconnect) disconnect{};
  decltype(&::rdma_notify) notify{};
  decltype(&::rdma_init_qp_attr) init_qp_attr{};
  decltype(&::rdma_get_cm_event) get_cm_event{};
  decltype(&::rdma_ack_cm_event) ack_cm_event{};
  decltype(&::rdma_get_src_port) get_src_port{};
  decltype(&::rdma_set_option) set_option{};
};

/// Found once, and kept for the life of the process: threads of the libraries run in them.
/// NotFound: a library or one of its functions is not there, and which.
[[nodiscard]] Result<const VerbsLibrary*> load_verbs();
[[nodiscard]] Result<const RdmaCmLibrary*> load_rdmacm();

/// The devices that libibverbs finds now, by name. NotFound: there is no libibverbs.
[[nodiscard]] Result<std::vector<std::string>> device_names();

/// What a call of either library has left in errno, or returned, as an Error that names the call.
[[nodiscard]] Error library_error(int error_number, const char* call);
/// The same of a call that returns an error number, or -1 with errno.
[[nodiscard]] Result<void> check_call(int returned, const char* call);

}  // namespace weft::verbs_driver
