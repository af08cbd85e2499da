#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/keys.h"
#include "base/result.h"
#include "core/qp.h"
#include "core/rdma_rw.h"
#include "ulp/iser/protection.h"

namespace weft::iser {

/// A part of a command's data on its way between a target's memory, which is one piece, and the
/// initiator's (R-IST-4). An RDMA context moves it as the device can: under the key for all local
/// memory, or through regions of the QP's pool. The memory stays until the transfer ends, which
/// it does after its completion, or when it was never posted; before its QP. With protection the
/// adapter makes, checks and takes off tuples on the way, through a region for integrity. When it
/// has ended another may begin here, which finds room for its lists.
class Transfer {
 public:
  Transfer() = default;
  ~Transfer() { end(); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  static constexpr std::size_t kMostBytes = 1 << 20;  // policy: what is longer goes in parts

  /// Regions that a QP's pool is to have for `transfers` under way, where those of its device go
  /// through regions; else 0. Enough for one that is as long as may be.
  [[nodiscard]] static std::uint32_t regions_for(const core::Device& device,
                                                 std::uint32_t transfers);

  /// FromDevice: an RDMA READ into the memory; ToDevice: an RDMA WRITE of it.
  void begin(core::DmaDirection direction, ByteSpan memory, std::uint64_t remote_address,
             RKey rkey);
  /// All blocks of a command, whose tuples lie beside them.
  void begin(core::DmaDirection direction, ByteSpan blocks, ByteSpan tuples,
             const TaskProtection& protection, std::uint64_t remote_address, RKey rkey);
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  /// Of one that has not begun: nothing.
  void end();

  [[nodiscard]] bool is_protected() const { return protection_.has_value(); }
  /// What the checks of a transfer with protection have found, after its completion.
  [[nodiscard]] Result<core::SignatureStatus> protection_status() const;

  /// Takes from the QP what it needs; how many entries of the send queue that is. Again: the same.
  /// TryAgain: regions are in use that it needs.
  Result<std::uint32_t> prepare(core::Qp& qp);
  /// Its requests: before those of `chain`, or the last of them signalled.
  const core::SendWr& work_requests(const core::CompletionHandler& handler,
                                    const core::SendWr* chain);
  /// `bad` was refused, so that it and what follows it was not posted.
  void forget_unposted(const core::SendWr* bad) { context_.forget_unposted(bad); }

 private:
  bool has_begun_{};
  ByteSpan memory_;
  ByteSpan tuples_;
  std::optional<TaskProtection> protection_;
  core::RdmaTransfer what_;
  std::vector<core::ScatterEntry> list_;
  std::vector<core::ScatterEntry> tuple_list_;
  std::uint32_t entries_{};  // 0: not prepared
  core::RdmaContext context_;
};

}  // namespace weft::iser
