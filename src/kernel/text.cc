#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include <array>
#include <cstddef>
#include <span>

namespace weft::kernel {
namespace {

using Text = const char*;

constexpr auto kEvents = std::to_array<Text>({"CQ error",
                                              "QP fatal error",
                                              "QP request error",
                                              "QP access error",
                                              "communication established",
                                              "send queue drained",
                                              "path migrated",
                                              "path migration error",
                                              "device fatal error",
                                              "port active",
                                              "port error",
                                              "LID change",
                                              "P_Key change",
                                              "SM change",
                                              "SRQ error",
                                              "SRQ limit reached",
                                              "last WQE reached",
                                              "client reregister",
                                              "GID change",
                                              "WQ fatal error"});
static_assert(kEvents.size() == IB_EVENT_WQ_FATAL + 1);

constexpr auto kStatuses = std::to_array<Text>({"success",
                                                "local length error",
                                                "local QP operation error",
                                                "local EEC operation error",
                                                "local protection error",
                                                "work request flushed",
                                                "memory window bind error",
                                                "bad response",
                                                "local access error",
                                                "remote invalid request error",
                                                "remote access error",
                                                "remote operation error",
                                                "transport retry counter exceeded",
                                                "RNR retry counter exceeded",
                                                "local RDD violation",
                                                "remote invalid RD request",
                                                "operation aborted",
                                                "invalid EE number",
                                                "invalid EE state",
                                                "fatal error",
                                                "response timeout",
                                                "general error"});
static_assert(kStatuses.size() == IB_WC_GENERAL_ERR + 1);

constexpr auto kCmEvents = std::to_array<Text>(
    {"address resolved", "address error", "route resolved", "route error", "connect request",
     "connect response", "connect error", "unreachable", "rejected", "established", "disconnected",
     "device removal", "multicast join", "multicast error", "address change", "timewait exit"});
static_assert(kCmEvents.size() == RDMA_CM_EVENT_TIMEWAIT_EXIT + 1);

constexpr auto kReasons = std::to_array<Text>({"no reason",
                                               "no QP",
                                               "no EEC",
                                               "no resources",
                                               "timeout",
                                               "unsupported request",
                                               "invalid communication id",
                                               "invalid communication instance",
                                               "invalid service id",
                                               "invalid transport type",
                                               "stale connection",
                                               "RDC does not exist",
                                               "invalid GID",
                                               "invalid LID",
                                               "invalid SL",
                                               "invalid traffic class",
                                               "invalid hop limit",
                                               "invalid packet rate",
                                               "invalid alternate GID",
                                               "invalid alternate LID",
                                               "invalid alternate SL",
                                               "invalid alternate traffic class",
                                               "invalid alternate hop limit",
                                               "invalid alternate packet rate",
                                               "port and CM redirect",
                                               "port redirect",
                                               "invalid MTU",
                                               "insufficient responder resources",
                                               "consumer defined",
                                               "invalid RNR retry",
                                               "duplicate local communication id",
                                               "invalid class version",
                                               "invalid flow label",
                                               "invalid alternate flow label"});

[[nodiscard]] Text text_of(std::span<const Text> texts, std::size_t number) {
  return number < texts.size() ? texts[number] : "unknown";
}

}  // namespace
}  // namespace weft::kernel

const char* ib_event_msg(ib_event_type event) {
  return weft::kernel::text_of(weft::kernel::kEvents, static_cast<std::size_t>(event));
}
const char* ib_wc_status_msg(ib_wc_status status) {
  return weft::kernel::text_of(weft::kernel::kStatuses, static_cast<std::size_t>(status));
}
const char* rdma_event_msg(rdma_cm_event_type event) {
  return weft::kernel::text_of(weft::kernel::kCmEvents, static_cast<std::size_t>(event));
}
const char* rdma_reject_msg(rdma_cm_id* /*id*/, int reason) {
  return weft::kernel::text_of(weft::kernel::kReasons, static_cast<std::size_t>(reason));
}
