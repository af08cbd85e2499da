#pragma once

// The body of iSER's connection manager over RDMA-CM: events, wherever its handlers are called, are
// told in the environment's work queue, one after the other.

#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/cm/rdma_cm.h"
#include "core/environment.h"
#include "core/work.h"
#include "ulp/iser/connection_manager.h"

namespace weft::programs::iser {

class LiveCmId final : public weft::iser::CmId, private core::RdmaCmHandler {
 public:
  /// An id that connects.
  [[nodiscard]] static Result<std::unique_ptr<LiveCmId>> create(core::Environment& environment,
                                                                core::RdmaCm& cm,
                                                                weft::iser::CmHandler& handler);
  /// That of a request, which asked for `offered`.
  LiveCmId(core::Environment& environment, std::unique_ptr<core::RdmaCmId> request,
           const verbs::ConnectionParameters& offered, weft::iser::CmHandler& handler);
  ~LiveCmId() override;

  /// "HOST:PORT".
  Result<void> resolve_address(std::string_view address, Duration timeout) override;
  Result<void> resolve_route(Duration timeout) override;
  [[nodiscard]] core::Device* device() const override { return id_->device(); }
  Result<void> set_qp(core::Qp& qp) override { return id_->use_qp(qp); }
  Result<void> connect(const verbs::ConnectionParameters& parameters) override;
  Result<void> accept(const verbs::ConnectionParameters& parameters) override;
  void disconnect() override;

 private:
  struct Event {
    weft::iser::CmEvent event{};
    std::vector<std::byte> private_data;
  };
  LiveCmId(core::Environment& environment, weft::iser::CmHandler& handler);
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void tell();

  weft::iser::CmHandler& handler_;
  std::unique_ptr<core::RdmaCmId> id_;
  std::uint8_t most_resources_{0xFF};  // that the peer has use for
  std::uint8_t most_depth_{0xFF};      // READs that it serves at a time
  std::mutex mutex_;
  std::deque<Event> events_;
  core::Work work_;
};

}  // namespace weft::programs::iser
