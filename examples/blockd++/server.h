#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/device.h"

namespace weft::blockd {

/// Serves one block of memory to everybody who connects. Any thread.
class Server final : private core::RdmaCmHandler {
 public:
  Server(core::RdmaCm& cm, core::Device& device, std::size_t bytes);
  ~Server();

  /// Returns the port; 0 in `address`: any.
  Result<std::uint16_t> listen(const core::RdmaCmAddress& address);
  [[nodiscard]] std::uint64_t requests() const { return requests_; }
  [[nodiscard]] std::size_t sessions();

 private:
  class Session;
  void handle_cm_event(core::RdmaCmId& id, const core::RdmaCmEvent& event,
                       std::unique_ptr<core::RdmaCmId> request) override;
  void end_session(const core::RdmaCmId& id);

  core::RdmaCm& cm_;
  core::Device& device_;
  std::vector<std::byte> disk_;
  std::unique_ptr<core::RdmaCmId> listener_;
  std::atomic<std::uint64_t> requests_{};
  std::atomic<unsigned> ending_{};  // sessions, by handlers of their ids
  std::mutex mutex_;                // of sessions_
  std::list<std::unique_ptr<Session>> sessions_;
};

}  // namespace weft::blockd
