#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "mad/mad_message.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// Cuts a message into RMPP segments and sends them within the receiver's window, again from the
/// first that is not acknowledged when nothing comes (IBTA vol 1 §13.6.3). Pure: segments out, ACKs
/// and time in.
class RmppSender {
 public:
  struct Options {
    Duration response_time;  ///< for an ACK
    unsigned retries{};
    Duration total_time;
    std::uint32_t window{};  ///< segments under way at most, whatever the receiver offers
  };

  enum class State : std::uint8_t { Sending, Acknowledged, Failed };

  RmppSender(MadMessage message, const Options& options, Instant now);

  /// The next segment to be sent now; none when the window is full.
  [[nodiscard]] std::optional<MadBytes> next_segment(Instant now);

  void handle_ack(const wire::Rmpp& ack, Instant now);
  void handle_timeout(Instant now);

  [[nodiscard]] State state() const { return state_; }
  /// Why it failed, which an ABORT tells the receiver.
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
  std::size_t data_at_;        // in a MAD
  std::size_t segment_bytes_;  // of data
  std::uint32_t segments_;
  std::uint32_t next_{1};
  std::uint32_t highest_sent_{};
  std::uint32_t last_acked_{};
  std::uint32_t window_last_{1};  // §13.6.3.1: the first segment goes alone
  std::uint32_t resent_{};
  unsigned retries_left_;
  Instant response_deadline_;
  Instant total_deadline_;
  State state_{State::Sending};
  wire::RmppStatus failure_{};
};

}  // namespace weft::mad
