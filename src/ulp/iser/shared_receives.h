#pragma once

// Receive buffers that many channels of a device share by an SRQ (IBTA vol 1 §10.2.9), so that
// memory follows what is under way and not the number of connections. Where the SRQ says that few
// are left, all that are free are posted, and more are made, up to the limit; beyond it senders
// wait, which RNR NAKs tell them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "core/environment.h"
#include "core/pd.h"
#include "core/qp.h"
#include "core/srq.h"
#include "core/work.h"
#include "ulp/iser/channel.h"

namespace weft::iser {

struct SharedReceiveOptions {
  std::uint32_t first{};  ///< buffers that are made at once
  std::uint32_t most{};   ///< buffers that there may be
  std::size_t bytes{};    ///< of each
  const char* caller{"iser"};
};

/// For people, and for tests.
struct SharedReceiveCounters {
  std::uint32_t buffers{};
  std::uint32_t posted{};
  std::uint64_t limit_events{};
  std::uint64_t errors{};  ///< of the SRQ itself: it is of no use any more
};

/// One thread: that of the channels' completions and of the environment's work.
class SharedReceives {
 public:
  /// NotSupported or InvalidArgument: the device has no SRQs, or none that large.
  static Result<std::unique_ptr<SharedReceives>> create(core::Environment& environment,
                                                        core::Pd& pd,
                                                        const SharedReceiveOptions& options);
  /// No channel uses it.
  ~SharedReceives();
  SharedReceives(const SharedReceives&) = delete;
  SharedReceives& operator=(const SharedReceives&) = delete;

  [[nodiscard]] core::Srq& srq() { return *srq_; }
  [[nodiscard]] std::uint32_t most() const { return options_.most; }
  [[nodiscard]] SharedReceiveCounters counters() const;

 private:
  friend class Channel;
  SharedReceives(core::Environment& environment, core::Pd& pd, const SharedReceiveOptions& options);
  static void handle_event(const core::Event& event, void* self);
  void handle_limit();
  void make(std::uint32_t count);
  Result<void> post(std::size_t count);
  Result<void> arm();

  // Of channels.
  void add(Channel& channel);
  void remove(Channel& channel);
  [[nodiscard]] Channel* channel_of(const core::Qp* qp) const;
  void take(ReceiveBuffer& /*buffer*/) { --posted_; }
  void give_back(ReceiveBuffer& buffer);

  core::Pd& pd_;
  const SharedReceiveOptions options_;
  core::Srq* srq_{};
  std::vector<std::unique_ptr<ReceiveBuffer>> buffers_;
  std::vector<ReceiveBuffer*> free_;
  std::map<const core::Qp*, Channel*> channels_;
  std::uint32_t posted_{};
  std::uint64_t limit_events_{};
  std::uint64_t errors_{};
  core::Work limit_work_;
  core::Work error_work_;
};

}  // namespace weft::iser
