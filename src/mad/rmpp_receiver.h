#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "mad/mad_message.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// Puts a message together from RMPP segments (IBTA vol 1 §13.6.4): in any order within the window,
/// repeated ones answered again. Pure: segments and time in; ACK, STOP or ABORT out. Nothing that a
/// segment says is believed before it was checked, and no memory is taken for what did not arrive.
class RmppReceiver {
 public:
  struct Options {
    std::uint32_t window{};
    std::size_t message_bytes{};  ///< at most; longer ones are stopped
    Duration total_time;
  };

  enum class State : std::uint8_t { Receiving, Complete, Failed };

  RmppReceiver(wire::ManagementClass mgmt_class, const Options& options, Instant now);

  /// A segment of this message. What comes back is the RMPP header of the answer, if one is due.
  [[nodiscard]] std::optional<wire::Rmpp> handle_data(const MadBytes& mad);

  /// Gives it up because there is no room: the STOP for the sender.
  [[nodiscard]] wire::Rmpp stop();

  /// The ABORT that is due when its time is over.
  [[nodiscard]] std::optional<wire::Rmpp> handle_timeout(Instant now);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] wire::RmppStatus failure() const { return failure_; }
  [[nodiscard]] Instant deadline() const {
    return state_ == State::Receiving ? total_deadline_ : Instant::never();
  }
  [[nodiscard]] std::size_t bytes_held() const {
    return data_.size() + early_.size() * segment_bytes_;
  }

  /// The first segment, for the headers of answers; zeros before it came.
  [[nodiscard]] const MadBytes& first() const { return first_; }

  /// The message, once, when Complete; what remains can still answer repeated segments.
  [[nodiscard]] MadMessage take();

 private:
  [[nodiscard]] std::optional<wire::RmppStatus> fault_of(const wire::Rmpp& rmpp) const;
  [[nodiscard]] wire::Rmpp refuse(wire::RmppStatus status);
  void accept(const MadBytes& mad, const wire::Rmpp& rmpp);
  [[nodiscard]] wire::Rmpp acknowledgement() const;

  Options options_;
  std::size_t data_at_;
  std::size_t segment_bytes_;
  Instant total_deadline_;
  MadBytes first_{};
  std::vector<std::byte> data_;              // of segments 1 to in_order_
  std::map<std::uint32_t, MadBytes> early_;  // those behind a gap
  std::uint32_t in_order_{};
  std::uint32_t window_last_{1};
  std::uint32_t announced_{};  // segments that the first one's PayloadLength makes; 0: unknown
  std::optional<std::uint32_t> last_;
  State state_{State::Receiving};
  wire::RmppStatus failure_{};
};

}  // namespace weft::mad
