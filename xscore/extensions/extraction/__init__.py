"""What sessions leave behind: facts found in their words, each with the quote that it rests on."""
