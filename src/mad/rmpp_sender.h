#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "mad/mad_message.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// Sends a message as RMPP segments within the receiver's window, and resends from the first
/// unacknowledged one on timeout (IBTA vol 1 §13.6.3). Pure: segments come out; ACKs and time go
/// in. Not thread-safe.
class RmppSender {
 public:
  /// Timers and limits of one message.
  struct Options {
    Duration response_time;  ///< how long to wait for an ACK
    unsigned retries{};
    Duration total_time;
    /// maximum of unacknowledged segments, even if the receiver allows more
    std::uint32_t window{};
  };

  enum class State : std::uint8_t { Sending, Acknowledged, Failed };

  RmppSender(MadMessage message, const Options& options, Instant now);

  /// The next segment to send; none while the window is full.
  [[nodiscard]] std::optional<MadBytes> next_segment(Instant now);

  void handle_ack(const wire::Rmpp& ack, Instant now);
  void handle_timeout(Instant now);

  [[nodiscard]] State state() const { return state_; }
  /// Reason of the failure, for the ABORT.
  [[nodiscard]] wire::RmppStatus failure() const { return failure_; }
  [[nodiscard]] Instant deadline() const;
  [[nodiscard]] std::uint32_t segments() const { return segments_; }
  [[nodiscard]] std::uint32_t resent() const { return resent_; }

  [[nodiscard]] const MadBytes& header() const { return message_.mad; }

 private:
  void fail(wire::RmppStatus status);
  [[nodiscard]] MadBytes segment(std::uint32_t number) const;

  MadMessage message_;
  Options options_;
  std::size_t data_at_;        // offset of the payload in a MAD
  std::size_t segment_bytes_;  // payload of one segment
  std::uint32_t segments_;
  std::uint32_t next_{1};
  std::uint32_t highest_sent_{};
  std::uint32_t last_acked_{};
  std::uint32_t window_last_{1};  // §13.6.3.1: the first segment is sent alone
  std::uint32_t resent_{};
  unsigned retries_left_;
  Instant response_deadline_;
  Instant total_deadline_;
  State state_{State::Sending};
  wire::RmppStatus failure_{};
};

}  // namespace weft::mad
