#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "os/unique_fd.h"
#include "verbs_driver/library.h"
#include "verbs_driver/verbs_device.h"

namespace weft::verbs_driver {

class LiveRdmaCmId;

/// RDMA-CM over librdmacm for QPs of this driver's devices: librdmacm says the attributes of each
/// transition, and the core's modify_qp makes it. One thread takes the events and calls the
/// handlers. Any thread.
class LiveRdmaCm final : public core::RdmaCm {
 public:
  /// For these devices, which outlive it. NotFound: no librdmacm.
  [[nodiscard]] static Result<std::unique_ptr<LiveRdmaCm>> start(std::vector<VerbsDevice*> devices);
  /// Its ids are destroyed.
  ~LiveRdmaCm() override;

  Result<std::unique_ptr<core::RdmaCmId>> create_id(core::RdmaCmHandler& handler) override;
  Result<std::unique_ptr<core::RdmaCmId>> create_native_id(core::RdmaCmHandler& handler) override;

 private:
  friend class LiveRdmaCmId;
  explicit LiveRdmaCm(const RdmaCmLibrary& library, std::vector<VerbsDevice*> devices)
      : library_(library), devices_(std::move(devices)) {}

  Result<std::unique_ptr<core::RdmaCmId>> create(core::RdmaCmHandler& handler,
                                                 rdma_port_space space);
  void serve_events();
  /// False: no event will come any more.
  [[nodiscard]] bool take_event();
  [[nodiscard]] VerbsDevice* find_device(ibv_context* context) const;
  void enter(LiveRdmaCmId& id);
  /// On return no event of the id is handled, unless by the calling thread.
  void leave(LiveRdmaCmId& id);

  const RdmaCmLibrary& library_;
  const std::vector<VerbsDevice*> devices_;
  rdma_event_channel* channel_{};
  os::UniqueFd stop_;  // readable: the thread ends
  std::thread thread_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<rdma_cm_id*, LiveRdmaCmId*> ids_;
  LiveRdmaCmId* handled_{};  // whose event is being handled
  std::condition_variable handled_changed_;
};

}  // namespace weft::verbs_driver
