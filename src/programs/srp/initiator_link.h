#pragma once

// What carries an initiator's channels, one after the other: RC QPs, ids of RDMA-CM, and memory
// that targets reach. One thread: that of the loop.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/work.h"
#include "programs/rdma/host.h"
#include "programs/srp/buffer_pool.h"
#include "programs/srp/initiator_device.h"
#include "programs/srp/loop_cm_id.h"
#include "programs/srp/target_url.h"
#include "ulp/iser/channel.h"
#include "ulp/srp/initiator_connection.h"

namespace weft::programs::srp {

/// What happens to the channel that is wanted. Never called from inside a call.
class InitiatorLinkClient {
 public:
  virtual void handle_connected(ByteSpan login_rsp) = 0;
  /// `login_rej` is empty unless the target itself has refused.
  virtual void handle_refused(ByteSpan login_rej, const std::string& reason) = 0;
  /// REJ 10: the target's CM has a connection of before.
  virtual void handle_stale(const std::string& reason) = 0;
  virtual void handle_lost(const std::string& reason) = 0;
  virtual void handle_unit(ByteSpan unit) = 0;

 protected:
  ~InitiatorLinkClient() = default;
};

class InitiatorLink final : public weft::srp::InitiatorConnection, public weft::srp::MemoryMapper {
 public:
  /// The device outlives it.
  InitiatorLink(InitiatorDevice& device, TargetUrl target, InitiatorLinkClient& client);
  /// Waits for channels that are ending.
  ~InitiatorLink() override;

  /// The target's address, for people.
  [[nodiscard]] std::string where() const;
  /// Of the port by which the channel goes; zero: there is no channel.
  [[nodiscard]] Gid source_gid() const;

  /// From now on disconnect() lets what was sent go first, in bounds: for an SRP_I_LOGOUT. The loop
  /// goes on meanwhile, so nothing else may be asked of the session.
  void linger() { lingers_ = true; }

  void connect(ByteSpan login_req) override;
  Result<void> post_send(ByteSpan unit) override;
  void disconnect() override;

  /// Memory of the pool's buffers: under the key of the buffer, or, by a device with fast
  /// registration, under one of its own for each command.
  Result<weft::srp::Mapping> map(std::span<const weft::srp::LocalPiece> pieces) override;
  Result<weft::srp::Mapping> place_table(ByteSpan octets) override;
  void unmap(std::uint64_t token) override;

 private:
  struct Attempt;
  [[nodiscard]] Result<void> begin(Attempt& attempt);
  [[nodiscard]] Result<void> begin_natively(Attempt& attempt);
  [[nodiscard]] Result<void> go_on(Attempt& attempt);
  void prepare_registrations(Attempt& attempt);
  [[nodiscard]] Result<weft::srp::Mapping> map_by_buffers(
      std::span<const weft::srp::LocalPiece> pieces);
  void handle_cm(Attempt& attempt, const core::RdmaCmEvent& event);
  void refuse(Attempt& attempt, ByteSpan login_rej, const std::string& reason);
  void lose(Attempt& attempt, const std::string& reason);
  void end(std::unique_ptr<Attempt> attempt);
  void collect();

  const TargetUrl target_;
  InitiatorLinkClient& client_;
  InitiatorDevice& device_;
  rdma::Host& host_;
  std::map<std::uint64_t, BufferPool::Lease> tables_;  // of descriptors, by token
  std::uint64_t next_token_{1};
  std::unique_ptr<Attempt> attempt_;  // that is wanted
  std::vector<std::unique_ptr<Attempt>> ending_;
  core::Work collect_work_;
  bool lingers_{};
};

}  // namespace weft::programs::srp
