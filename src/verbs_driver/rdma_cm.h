#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/environment.h"
#include "os/unique_fd.h"
#include "verbs_driver/id_events.h"
#include "verbs_driver/library.h"
#include "verbs_driver/verbs_device.h"

namespace weft::verbs_driver {

class LiveRdmaCmId;

/// RDMA-CM over librdmacm for QPs of this driver's devices: librdmacm says the attributes of each
/// transition, and the core's modify_qp makes it. One thread takes the events; handlers are called
/// in the environment's unbound work queue, each id's by itself. Any thread.
class LiveRdmaCm final : public core::RdmaCm {
 public:
  /// For these devices, which outlive it. NotFound: no librdmacm.
  [[nodiscard]] static Result<std::unique_ptr<LiveRdmaCm>> start(core::Environment& environment,
                                                                 std::vector<VerbsDevice*> devices);
  /// The same over these functions, for tests without a network.
  [[nodiscard]] static Result<std::unique_ptr<LiveRdmaCm>> start(core::Environment& environment,
                                                                 std::vector<VerbsDevice*> devices,
                                                                 const RdmaCmLibrary& library);
  /// Its ids are destroyed, and it is not called by a handler.
  ~LiveRdmaCm() override;

  /// Another device, whose ids there may be until it is removed; it outlives that.
  void add_device(VerbsDevice& device);
  void remove_device(const VerbsDevice& device);

  Result<std::unique_ptr<core::RdmaCmId>> create_id(core::RdmaCmHandler& handler) override;
  Result<std::unique_ptr<core::RdmaCmId>> create_native_id(core::RdmaCmHandler& handler) override;

 private:
  friend class LiveRdmaCmId;
  LiveRdmaCm(core::Environment& environment, const RdmaCmLibrary& library,
             std::vector<VerbsDevice*> devices)
      : environment_(environment), library_(library), devices_(std::move(devices)) {}

  Result<std::unique_ptr<core::RdmaCmId>> create(core::RdmaCmHandler& handler,
                                                 rdma_port_space space);
  void serve_events();
  /// False: no event will come any more.
  [[nodiscard]] bool take_event();
  [[nodiscard]] VerbsDevice* find_device(ibv_context* context) const;
  /// With the lock: events of librdmacm's id are for this one from now on.
  [[nodiscard]] std::unique_ptr<LiveRdmaCmId> enter(rdma_cm_id* id, core::RdmaCmHandler& handler,
                                                    bool is_request);
  /// On return no event of the id is handled, unless by the calling thread.
  void leave(LiveRdmaCmId& id);

  core::Environment& environment_;
  const RdmaCmLibrary& library_;
  rdma_event_channel* channel_{};
  os::UniqueFd stop_;  // readable: the thread ends
  std::thread thread_;
  mutable std::mutex devices_mutex_;  // of the devices; nothing is called with it
  std::vector<VerbsDevice*> devices_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<rdma_cm_id*, LiveRdmaCmId*> ids_;
  std::vector<std::shared_ptr<IdEvents>> ended_;  // of ids that handlers ended which go on
};

}  // namespace weft::verbs_driver
