#pragma once

// A host's Omni-Path port: 16B packets and MADs go as they are. What the fabric knows of a port is
// in its capability mask, and a virtual switch floods to a multicast LID that follows from its
// number. See opa_port.h.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "programs/host/omni_path_attachment.h"
#include "programs/vnic/opa_port.h"
#include "wire/opa/mad_packet_16b.h"
#include "wire/opa/packet_16b.h"

namespace weft::programs::vnic {

/// Policy: the first LID of more than one receiver and the switch's number of 12 bits, so that each
/// manager finds the same, whatever its file says of other switches.
[[nodiscard]] constexpr Lid multicast_lid_of(std::uint16_t vesw_id) {
  constexpr std::uint32_t kFirst = 0xF0'0000;
  return Lid{kFirst + (vesw_id & 0xFFFU)};
}

class OmniPathPort final : public OpaPort {
 public:
  /// NotFound: the host has no Omni-Path port. Otherwise as OpaPort::open().
  [[nodiscard]] static Result<std::unique_ptr<OpaPort>> open(Use use, Handlers handlers);

  void add_to(PollSet& waits) const override;
  [[nodiscard]] Result<bool> work(const PollSet& waits, Instant now) override;
  [[nodiscard]] Result<void> flush() override { return attachment_->flush(); }
  [[nodiscard]] Instant deadline() const override;

  [[nodiscard]] bool is_omni_path() const override { return true; }
  [[nodiscard]] bool is_active() const override { return attachment_->is_active(); }
  [[nodiscard]] Lid lid() const override { return attachment_->lid(); }
  [[nodiscard]] PKey management_pkey() const override;
  [[nodiscard]] bool has_room() const override { return attachment_->has_room(); }
  [[nodiscard]] std::size_t max_packet_bytes() const override;

  void announce(std::string host, Instant now) override;
  void withdraw(Instant now) override;
  [[nodiscard]] bool is_announced() const override { return is_announced_ && is_active(); }
  [[nodiscard]] bool is_idle() const override {
    return !attachment_->keeps_words() && !attachment_->keeps_packets();
  }
  /// If the fabric's ports are others than at the last look.
  void look_up(Instant now) override;
  [[nodiscard]] const std::map<Lid, Announcement>& announced() const override { return announced_; }

  void set_groups(const std::set<FloodGroup>& wanted, Instant now) override;
  [[nodiscard]] std::optional<Lid> lid_of_group(const FloodGroup& group) const override;

  void send_mad(const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) override;
  void send_mad_to_agent(Lid to, std::vector<std::byte> mad) override;
  void send_mad_to_manager(opa_vnic::VemaPeer to, std::vector<std::byte> mad) override {
    send_mad(to, std::move(mad));
  }
  void send_packet(std::vector<std::byte> packet, Instant now) override;

  [[nodiscard]] OpaPortCounters counters() const override;

 private:
  OmniPathPort(Use use, Handlers handlers, std::unique_ptr<OmniPathAttachment> attachment)
      : use_(use), handlers_(std::move(handlers)), attachment_(std::move(attachment)) {}
  void follow(const OmniPathNews& news);
  void take_listed(const std::vector<ListedOmniPathPort>& listed);
  void receive(ByteSpan packet);
  void receive_mad(ByteSpan packet);
  [[nodiscard]] bool is_for_here(const wire::Opa16bHeader& header) const;

  Use use_;
  Handlers handlers_;
  std::unique_ptr<OmniPathAttachment> attachment_;
  bool is_announced_{};
  bool is_looking_up_{};
  bool has_others_{true};  // ports that are not known yet
  std::map<Lid, Announcement> announced_;
  std::map<Lid, bool> groups_;  // wanted; true: joined
  OpaPortCounters counters_;
};

}  // namespace weft::programs::vnic
