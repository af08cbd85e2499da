#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/cm/rdma_cm.h"
#include "verbs_driver/id_events.h"
#include "verbs_driver/rdma_cm.h"

namespace weft::verbs_driver {

/// An id of librdmacm.
class LiveRdmaCmId final : public core::RdmaCmId {
 public:
  /// Takes the id over.
  LiveRdmaCmId(LiveRdmaCm& cm, rdma_cm_id* id, core::RdmaCmHandler& handler,
               std::shared_ptr<IdEvents> events)
      : cm_(cm), id_(id), handler_(&handler), events_(std::move(events)) {}
  ~LiveRdmaCmId() override;
  LiveRdmaCmId(const LiveRdmaCmId&) = delete;
  LiveRdmaCmId& operator=(const LiveRdmaCmId&) = delete;

  [[nodiscard]] core::Device* device() const override;
  [[nodiscard]] PortNumber port() const override { return PortNumber{id_->port_num}; }
  [[nodiscard]] core::Qp* qp() const override;
  [[nodiscard]] std::optional<core::RdmaCmAddress> peer_address() const override;
  [[nodiscard]] std::optional<Gid> peer_gid() const override;
  [[nodiscard]] std::optional<Gid> source_gid() const override;
  void set_handler(core::RdmaCmHandler& handler) override { handler_ = &handler; }

  Result<void> bind(const core::RdmaCmAddress& address) override;
  Result<void> listen(int backlog) override;
  [[nodiscard]] std::uint16_t source_port() const override;
  Result<void> resolve_address(const core::RdmaCmAddress& destination, Duration timeout) override;
  Result<void> resolve_route(Duration timeout) override;
  Result<void> set_type_of_service(std::uint8_t type) override;
  Result<core::Qp*> create_qp(core::Pd& pd, core::QpInit& init) override;
  Result<void> use_qp(core::Qp& qp) override;
  void destroy_qp() override;
  Result<void> connect(const verbs::ConnectionParameters& parameters) override;
  Result<void> accept(const verbs::ConnectionParameters& parameters) override;
  Result<void> reject(ByteSpan private_data) override;
  Result<void> disconnect() override;
  Result<void> notify(verbs::AsyncEventType event) override;

  // --- for LiveRdmaCm
  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  [[nodiscard]] core::RdmaCmHandler& handler() const { return *handler_; }
  [[nodiscard]] IdEvents& events() const { return *events_; }
  [[nodiscard]] std::shared_ptr<IdEvents> share_events() const { return events_; }
  /// What the QP has to do with the event, then its handler.
  void handle(core::RdmaCmEvent& event, std::unique_ptr<LiveRdmaCmId> request);

 private:
  /// REP has come: the QP goes to RTS, and RTU to the peer.
  Result<void> establish();
  /// To error, so that what is posted is flushed.
  void fail_qp();
  Result<void> adopt(core::Qp& qp);
  Result<void> apply(verbs::QpState state);
  Result<void> make_ready();

  LiveRdmaCm& cm_;
  rdma_cm_id* const id_;
  std::atomic<core::RdmaCmHandler*> handler_;
  const std::shared_ptr<IdEvents> events_;
  /// The program may destroy the QP while an event fails it or makes it ready.
  mutable std::mutex qp_mutex_;
  core::Qp* qp_{};  // under it, as is what is done with it here
  bool owns_qp_{};
  std::uint8_t responder_resources_{RDMA_MAX_RESP_RES};  // as given to connect() or accept()
  std::uint8_t initiator_depth_{RDMA_MAX_INIT_DEPTH};
};

}  // namespace weft::verbs_driver
