// What the service does to every text of a page, for texts that a script itself fetches.

const HIDDEN = /((?![\n\t\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800])\1*/gu;

export function visible(text) {
  return text.replace(HIDDEN, (run, each) => {
    const times = run.length / each.length;
    const name = each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟦U+${name}${times > 1 ? ` ×${times}` : ""}⟧`;
  });
}
